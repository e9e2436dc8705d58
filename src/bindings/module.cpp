// SPDX-License-Identifier: Apache-2.0
// mindspeed_core._C: the engine's objects for Python. The operators need no binding: loading
// libmindspeed, which this module links, registers them as torch.ops.mindspeed.*.
#include "bindings/bindings.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "MindSpeed's C++ engine: models, training step, checkpoints, memory pool.";
  mindspeed::bindings::bind_memory(module);
  mindspeed::bindings::bind_checkpoint(module);
  mindspeed::bindings::bind_sharding(module);
  mindspeed::bindings::bind_engine(module);
}
