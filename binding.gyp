{
  "variables": {
    "core_sources": ["<!@(node scripts/native-sources.mjs)"]
  },
  "target_defaults": {
    "cflags_cc": ["-std=c++20", "-fvisibility=hidden", "-Wall", "-Wextra", "-ffp-contract=off"],
    "cflags_cc!": ["-std=gnu++17", "-std=gnu++20"],
    "include_dirs": ["native"],
    "xcode_settings": {
      "CLANG_CXX_LANGUAGE_STANDARD": "c++20",
      "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
      "OTHER_CPLUSPLUSFLAGS": ["-ffp-contract=off"],
      "MACOSX_DEPLOYMENT_TARGET": "11.0"
    },
    "msvs_settings": { "VCCLCompilerTool": { "AdditionalOptions": ["/std:c++20", "/fp:precise"] } }
  },
  "targets": [
    {
      # The core: no Napi, so that it builds, tests and fuzzes with a plain compiler.
      "target_name": "laxity_core",
      "type": "static_library",
      "sources": ["<@(core_sources)"]
    },
    {
      "target_name": "laxity",
      "dependencies": ["laxity_core"],
      "sources": ["<!@(node scripts/native-sources.mjs binding)"],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=9", "NAPI_DISABLE_CPP_EXCEPTIONS", "NODE_ADDON_API_DISABLE_DEPRECATED"]
    }
  ]
}
