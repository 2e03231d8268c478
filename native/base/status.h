// Every way in which the core can decline an input. Values are stable: they appear in logs.
#pragma once

#include <cstdint>

namespace laxity {

enum class Status : std::uint8_t {
  kOk = 0,
  kStale = 1,            ///< The reference names an earlier owner of the slot, or an earlier epoch: ignored.
  kUnknownWorkflow = 2,  ///< No open workflow has this reference.
  kUnknownCall = 3,      ///< No live call has this reference.
  kUnknownInstance = 4,  ///< No instance was added under this slot.
  kUnknownParent = 5,    ///< A parent does not belong to the same open workflow.
  kSlotInUse = 6,        ///< The slot still has a live owner.
  kSlotOutOfRange = 7,   ///< Slots must be dense: at most one beyond the largest ever used.
  kClockBackwards = 8,   ///< t is smaller than the t of an earlier event.
  kBadTime = 9,          ///< A time is negative or beyond kMaxTime.
  kBadTokens = 10,       ///< Token counts are zero where work is needed, or beyond the limit.
  kBadValue = 11,        ///< A parameter or field lies outside its documented range.
  kBadState = 12,        ///< The event does not fit the state of its call, workflow or instance.
  kWorkflowClosed = 13,  ///< A reveal after closeWorkflow.
  kNeverFits = 14,       ///< Needs more KV than any instance of its model has. Never feasible.
  kNoInstance = 15,      ///< No instance serves this model.
  kNoCreditNow = 16,     ///< Feasible, but not now.
  kUnsupported = 17,     ///< Declared by the contract, not built yet (prefill-decode, n > 1 on links, plans).
  kTooManyCalls = 18,    ///< A workflow holds at most 2^24 calls.
  kUnknownPolicy = 19,   ///< No order, placement or parameter is registered under this name.
  kBadLog = 20,          ///< A log record is malformed or truncated.
  kCancelled = 21,       ///< The caller asked a run to stop.
  kCyclicParents = 22,   ///< A parent comes after its child.
  kTooManyInstances = 23,  ///< Beyond the limit of instances.
  kUnknownModel = 24,      ///< An instance names a latency model that was not given.
  kLawBroken = 25,  ///< A conservation law failed during a run that checks them: a defect of this package.
  kPlacementFailed = 26,  ///< A placement from outside (external.h) threw, or named no candidate.
  kDoesNotFit = 27,       ///< The weights leave no room for KV in the memory of the GPUs.
  kBadParallelism = 28,   ///< A tensor parallelism that the model or the calibration does not have.
  kNotMeasured = 29,      ///< The calibration has no kernels of this precision on this GPU.
};

inline constexpr Status kLastStatus = Status::kNotMeasured;

constexpr bool ok(Status s) { return s == Status::kOk; }

const char* reason(Status s);

}  // namespace laxity
