// SPDX-License-Identifier: Apache-2.0
#include "memory/resident.h"

#include <fstream>
#include <stdexcept>
#include <string>

namespace mindspeed::memory {

int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  throw std::runtime_error("/proc/self/status does not tell the peak memory (VmHWM)");
}

void reset_peak_resident() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << '5' << std::flush;  // 5: the peak only, see proc(5)
  if (!clear) throw std::runtime_error("/proc/self/clear_refs cannot be written");
}

}  // namespace mindspeed::memory
