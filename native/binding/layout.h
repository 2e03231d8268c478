// Where each field of each event stands in its 128-byte record, for JavaScript to read and write.
#pragma once

#include "binding/napi_setup.h"

namespace laxity::binding {

/// { recordBytes, kinds: [{ name, id, fields: [{ name, offset, type }] }] }; type: u8 u16 u32 i16 i32 i64 u64
/// f64.
Napi::Object eventLayout(Napi::Env env);

}  // namespace laxity::binding
