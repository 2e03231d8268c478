// The only include of napi.h: what the binding relies on is fixed here (NAPI_VERSION and exceptions in
// binding.gyp).
#pragma once

// A worker that is being terminated cannot take an exception any more: without this, throwing then aborts the
// process.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS

#include <napi.h>
