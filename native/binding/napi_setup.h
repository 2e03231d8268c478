// The only include of napi.h: what the binding relies on is fixed here (NAPI_VERSION and exceptions in binding.gyp).
#pragma once

#include <napi.h>
