// The max-stretch equaliser (policies 2.9).
// Assumes a deadline D (CONTRACT 9), which states the scale, and the expected structure of the workflow: the
// revealed part, finished calls included, and what is expected beyond it (template or declared).
// Procedure: key = (t - a + rem) / (s X), evaluated at every pick since slopes differ.
//   rem  mean time of the longest path from the call on, the call included
//   X    longest mean-time path of the known workflow: finished calls count at the mean that was expected of
//        them, what is expected beyond the revealed part follows the longest revealed path; a time declared
//        for a call that is not finished stands in its place below that call
//   s    (D - a) / B, B the mean time of the workflow's whole stage template. B is the base of the SLO, a
//        constant, and used whatever the knowledge; the template as a forecast is not.
//   Without a template, or where deadlines are no multiples of its time, D = a + s X by definition: s X = D -
//   a.
// A product of 1 ns or less (D not after a) counts as 1 ns: such workflows go first, the latest of them
// ahead. Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Stretch {
  static constexpr const char* kName = "stretch";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static constexpr bool kNeedsWholePath = true;

  static double key(const OrderView& v) {
    return static_cast<double>(v.now - v.workflow.arrival + remainingFrom(v)) / allowed(v.workflow);
  }
  static KeyLine line(const OrderView& v) {
    return {v.workflow.arrival, static_cast<double>(remainingFrom(v)), allowed(v.workflow)};
  }

 private:
  static double allowed(const Workflow& w) {
    double time = static_cast<double>(w.deadline - w.arrival);
    if (w.templateTime > 0)
      time = time * static_cast<double>(w.wholePath) / static_cast<double>(w.templateTime);
    return time > 1 ? time : 1;
  }
};

}  // namespace laxity
