// Generated workloads: sizes first, then JavaScript allocates the columns, then they are filled.
#pragma once

#include "binding/napi_setup.h"

namespace laxity::binding {

Napi::Value chessSize(const Napi::CallbackInfo& info);
Napi::Value chessFillColumns(const Napi::CallbackInfo& info);
Napi::Value macSqlSize(const Napi::CallbackInfo& info);
Napi::Value macSqlFillColumns(const Napi::CallbackInfo& info);
Napi::Value agenticSize(const Napi::CallbackInfo& info);
Napi::Value agenticFillColumns(const Napi::CallbackInfo& info);

}  // namespace laxity::binding
