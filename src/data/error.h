// SPDX-License-Identifier: Apache-2.0
// The one exception of the data room: a file, an argument or a disk is not as it must be. The
// message is complete and meant for people ("where: what must hold, got value; cure"); Python
// raises it as DataError.
#pragma once
#include <stdexcept>
#include <string>

namespace mindspeed::data {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mindspeed::data
