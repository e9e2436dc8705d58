// Owns the precompiled header that the torch-using rooms share (see src/CMakeLists.txt).
