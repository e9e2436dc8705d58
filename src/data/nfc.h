// SPDX-License-Identifier: Apache-2.0
// Unicode normal form C: one spelling of each character (e and a combining acute become é).
#pragma once
#include <string>

namespace mindspeed::data {

// Rewrites `text` in place; true if that changed it. Bytes that are no valid UTF-8 stay as they
// are. Time is linear, but for runs of combining marks, which are sorted.
bool normalise_nfc(std::string& text);

}  // namespace mindspeed::data
