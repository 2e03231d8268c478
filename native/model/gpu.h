// GPUs as the latency model sees them: peaks from datasheets, and which set of measured kernels stands for
// them (kernel_sets.h).
//
// Source of the table: A100-80, H100, H200 and L40S as in aiconfigurator's system files, the others from
// datasheets (reference latency-model.md, section 4). Memory is what the driver shows, not the marketing
// number.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace laxity {

enum class Interconnect : std::uint8_t {
  kSwitched = 0,  ///< NVLink among all GPUs of the host: measured all-reduce of the kernel set
  kPcie = 1,      ///< at most pairs are linked: all-reduce over a bus of 12 GB/s, assumed
};

struct GpuSpec {
  double flops16 = 0;    ///< dense BF16 FLOP/s
  double flops8 = 0;     ///< dense FP8 FLOP/s; 0 = has none
  double bandwidth = 0;  ///< memory, B/s
  double memory = 0;     ///< bytes
  double peer = 0;       ///< NVLink or peer-to-peer, B/s per direction
  double network = 0;    ///< B/s per GPU
  double pcie = 0;       ///< B/s
  Interconnect interconnect = Interconnect::kSwitched;
  std::uint8_t kernels = 0;  ///< index into kKernelSets
  bool transferred = false;  ///< the kernel set was fitted on another GPU
};

struct GpuEntry {
  std::string_view id;
  GpuSpec spec;
};

/// kBadValue where a peak is not positive or beyond any hardware.
Status check(const GpuSpec& gpu);

inline constexpr std::array<GpuEntry, 8> kGpus{{
    {"a100-40", {312e12, 0, 1555e9, 42.9e9, 300e9, 25e9, 32e9, Interconnect::kSwitched, 0, true}},
    {"a100-80", {312e12, 0, 2039e9, 85.9e9, 300e9, 25e9, 32e9, Interconnect::kSwitched, 0, false}},
    {"h100", {989e12, 1979e12, 3350e9, 85.5e9, 450e9, 50e9, 64e9, Interconnect::kSwitched, 1, false}},
    {"h200", {989e12, 1979e12, 4800e9, 150.7e9, 450e9, 50e9, 64e9, Interconnect::kSwitched, 2, false}},
    {"l40s", {362e12, 733e12, 864e9, 48.3e9, 32e9, 50e9, 32e9, Interconnect::kPcie, 3, false}},
    {"l40", {181e12, 362e12, 864e9, 48.3e9, 32e9, 50e9, 32e9, Interconnect::kPcie, 3, true}},
    {"a6000", {154.8e12, 0, 768e9, 51.5e9, 56e9, 25e9, 32e9, Interconnect::kPcie, 3, true}},
    {"a40", {149.7e12, 0, 696e9, 48.3e9, 56e9, 25e9, 32e9, Interconnect::kPcie, 3, true}},
}};

/// Null where no GPU has this id.
const GpuEntry* findGpu(std::string_view id);

}  // namespace laxity
