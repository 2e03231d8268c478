// ObjectWrap whose objects say of which class they are.
//
// V8 lets a method be called only on an object of its class. Nobody checks the `this` of an accessor, or an
// object that is an argument: without the tag, the object of another class (or of another addon) would be
// read as one of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "binding/napi_setup.h"

namespace laxity::binding {

/// Throws a TypeError with the code ERR_LAXITY_NATIVE where nothing is pending; always false.
bool fail(Napi::Env env, const std::string& message);

/// T has a `static constexpr napi_type_tag kTag`, drawn at random once, and `static constexpr char kName[]`.
template <class T>
class ObjectWrap : public Napi::ObjectWrap<T> {
 public:
  explicit ObjectWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<T>(info) {
    napi_type_tag_object(info.Env(), info.This(), &T::kTag);
  }
  ~ObjectWrap() override { tellHeld(0); }

  /// The object behind `value`; throws and returns null where it is not of this class.
  static T* of(Napi::Env env, napi_value value) {
    napi_valuetype type = napi_undefined;
    bool tagged = false;
    void* object = nullptr;
    // Of null and undefined the check itself would throw.
    if (napi_typeof(env, value, &type) == napi_ok && type == napi_object &&
        napi_check_object_type_tag(env, value, &T::kTag, &tagged) == napi_ok && tagged &&
        napi_unwrap(env, value, &object) == napi_ok) {
      return static_cast<T*>(object);
    }
    fail(env, std::string("Expected an object of class ") + T::kName);
    return nullptr;
  }

  /// In place of InstanceAccessor, which takes any `this`.
  template <Napi::Value (T::*getter)(const Napi::CallbackInfo&)>
  static Napi::ClassPropertyDescriptor<T> Accessor(const char* name) {
    napi_property_descriptor descriptor = napi_property_descriptor();
    descriptor.utf8name = name;
    descriptor.getter = [](napi_env env, napi_callback_info given) -> napi_value {
      const Napi::CallbackInfo info(env, given);
      T* self = of(env, info.This());
      return self == nullptr ? Napi::Value() : (self->*getter)(info);
    };
    return descriptor;
  }

 protected:
  /// Tells V8 that this object keeps `bytes` outside of its heap. V8 sees only the few words of the wrapper,
  /// and without this it lets gigabytes of dropped objects lie before it collects them.
  void tellHeld(std::size_t bytes) {
    const auto now = static_cast<std::int64_t>(bytes);
    if (now != held_) Napi::MemoryManagement::AdjustExternalMemory(this->Env(), now - held_);
    held_ = now;
  }

 private:
  std::int64_t held_ = 0;
};

}  // namespace laxity::binding
