// SPDX-License-Identifier: Apache-2.0
#include "parallel/unit_boundary.h"

#include <utility>

namespace mindspeed::parallel {
namespace {

class Nested final : public UnitBoundary {
 public:
  Nested(std::shared_ptr<UnitBoundary> outer, std::shared_ptr<UnitBoundary> inner)
      : outer_(std::move(outer)), inner_(std::move(inner)) {}

  void begin() override {
    outer_->begin();
    inner_->begin();
  }
  std::vector<at::Tensor> enter(int64_t unit, std::vector<at::Tensor> inputs) override {
    return inner_->enter(unit, outer_->enter(unit, std::move(inputs)));
  }
  std::vector<at::Tensor> leave(int64_t unit, std::vector<at::Tensor> outputs) override {
    return outer_->leave(unit, inner_->leave(unit, std::move(outputs)));
  }

 private:
  std::shared_ptr<UnitBoundary> outer_;
  std::shared_ptr<UnitBoundary> inner_;
};

}  // namespace

std::shared_ptr<UnitBoundary> nest(
    std::shared_ptr<UnitBoundary> outer, std::shared_ptr<UnitBoundary> inner) {
  if (!outer) return inner;
  if (!inner) return outer;
  return std::make_shared<Nested>(std::move(outer), std::move(inner));
}

}  // namespace mindspeed::parallel
