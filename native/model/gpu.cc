#include "model/gpu.h"

#include "model/kernel_sets.h"

namespace laxity {
namespace {

bool within(double value, double low, double high) { return value >= low && value <= high; }

}  // namespace

Status check(const GpuSpec& g) {
  const bool peaks = within(g.flops16, 1e11, 1e18) && (g.flops8 == 0 || within(g.flops8, 1e11, 1e18)) &&
                     within(g.bandwidth, 1e9, 1e15) && within(g.memory, 1e9, 1e14) &&
                     within(g.peer, 1e8, 1e14) && within(g.network, 1e7, 1e14) && within(g.pcie, 1e8, 1e14);
  return peaks && g.kernels < kKernelSets.size() ? Status::kOk : Status::kBadValue;
}

const GpuEntry* findGpu(std::string_view id) {
  for (const GpuEntry& entry : kGpus) {
    if (entry.id == id) return &entry;
  }
  return nullptr;
}

}  // namespace laxity
