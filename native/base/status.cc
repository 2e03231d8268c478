#include "base/status.h"

namespace laxity {

const char* reason(Status s) {
  switch (s) {
    case Status::kOk:
      return "The input was accepted.";
    case Status::kStale:
      return "The reference names an earlier owner of its slot or an earlier epoch, so the event was "
             "ignored.";
    case Status::kUnknownWorkflow:
      return "No open workflow has this reference.";
    case Status::kUnknownCall:
      return "No live call has this reference.";
    case Status::kUnknownInstance:
      return "No instance was added under this slot.";
    case Status::kUnknownParent:
      return "A parent does not belong to the same open workflow.";
    case Status::kSlotInUse:
      return "The slot still has a live owner.";
    case Status::kSlotOutOfRange:
      return "Slots must be dense, so a new slot may lie at most one beyond the largest ever used.";
    case Status::kClockBackwards:
      return "The time is smaller than the time of an earlier event.";
    case Status::kBadTime:
      return "A time is negative, not finite or beyond the largest accepted time.";
    case Status::kBadTokens:
      return "A token count is zero where work is needed, or beyond its limit.";
    case Status::kBadValue:
      return "A parameter or field lies outside its documented range.";
    case Status::kBadState:
      return "The event does not fit the state of its call, workflow or instance.";
    case Status::kWorkflowClosed:
      return "The workflow was closed before this call was revealed.";
    case Status::kNeverFits:
      return "The call needs more KV cache than any instance of its model has, so it can never run.";
    case Status::kNoInstance:
      return "No instance serves this model.";
    case Status::kNoCreditNow:
      return "The call fits, but no instance has credit for it now.";
    case Status::kUnsupported:
      return "The contract declares this input, but this version does not build it yet.";
    case Status::kTooManyCalls:
      return "A workflow holds at most 2^24 calls.";
    case Status::kUnknownPolicy:
      return "No order, placement or parameter is registered under this name.";
    case Status::kBadLog:
      return "A log record is malformed or truncated.";
    case Status::kCancelled:
      return "The caller asked the run to stop.";
    case Status::kCyclicParents:
      return "A parent comes after its child.";
    case Status::kTooManyInstances:
      return "The cluster has more instances than the limit.";
    case Status::kUnknownModel:
      return "An instance names a latency model that was not given.";
    case Status::kLawBroken:
      return "A conservation law failed during the run: a defect of this package.";
    case Status::kPlacementFailed:
      return "The placement function threw, or did not return the index of a candidate.";
    case Status::kDoesNotFit:
      return "The weights leave no room for KV in the memory of the GPUs.";
    case Status::kBadParallelism:
      return "The tensor parallelism must be 1, 2, 4 or 8 and divide the query heads of the model.";
    case Status::kNotMeasured:
      return "The calibration has no kernels of this precision on this GPU.";
  }
  return "The status has no known meaning.";
}

}  // namespace laxity
