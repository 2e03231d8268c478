// A placement written in JavaScript: builds the plain object it is given, calls it, checks its answer.
//
// One failure (an exception, an answer that is no candidate's index) ends its use until `reset`: the core
// asks no more and nothing is thrown through it. The caller of the core then finds out why. Calls are
// synchronous, on the thread of their environment.
#pragma once

#include <cstdint>

#include "binding/napi_setup.h"
#include "placement/registry.h"

namespace laxity::binding {

class PlacementFunction {
 public:
  void bind(Napi::Function function) { function_ = Napi::Persistent(function); }
  bool bound() const { return !function_.IsEmpty(); }
  /// From now on `owner` keeps the function alive, so that a function that refers to its owner can be
  /// collected with it.
  void keepIn(Napi::Object owner);
  /// Valid as long as this object stays where it is.
  ExternalPlacement placement() { return {&PlacementFunction::choose, this}; }

  void reset();
  bool failed() const { return failed_; }
  /// { threw, value }: what was thrown, or what was returned; null where nothing failed.
  Napi::Value failure(Napi::Env env) const;

 private:
  static std::uint32_t choose(void* self, const PlacementView& view);
  std::uint32_t ask(const PlacementView& view);
  std::uint32_t fail(Napi::Env env, bool threw, napi_value value);

  Napi::FunctionReference function_;
  Napi::ObjectReference failure_;
  bool failed_ = false;
};

}  // namespace laxity::binding
