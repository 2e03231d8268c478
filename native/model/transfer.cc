#include "model/transfer.h"

#include <algorithm>

namespace laxity {
namespace {

constexpr double kDiskBandwidth = 7e9;

double moveNs(double bytes, double lanes, double bandwidth, const LinkOptions& link) {
  return 1e9 * bytes * link.compression / (lanes * link.efficiency * bandwidth);
}

double sendNs(const RooflineSpec& from, const RooflineSpec& to, double tokens, const LinkOptions& link) {
  const double lanes = link.lanes > 0 ? link.lanes : std::min(from.tensorParallel, to.tensorParallel);
  const double bandwidth = link.bandwidth > 0 ? link.bandwidth : std::min(from.gpu.network, to.gpu.network);
  return moveNs(tokens * kvBytesPerToken(from.llm, from.kvBytes()), lanes, bandwidth, link);
}

}  // namespace

double transferNs(const RooflineSpec& from, const RooflineSpec& to, double tokens, const LinkOptions& link) {
  return link.latencyNs + link.handshakeNs + sendNs(from, to, tokens, link);
}

double overlappedTransferNs(const RooflineSpec& from, const RooflineSpec& to, double tokens, double prefillNs,
                            const LinkOptions& link) {
  const double whole = sendNs(from, to, tokens, link);
  return link.latencyNs + whole / from.llm.layers + std::max(0.0, whole - prefillNs);
}

double loadNs(const RooflineSpec& into, double tokens, Tier tier, const LinkOptions& link) {
  const double perGpu = tier == Tier::kHost ? into.gpu.pcie : into.gpu.network;
  const double bandwidth = link.bandwidth > 0    ? link.bandwidth
                           : tier == Tier::kDisk ? kDiskBandwidth
                                                 : perGpu;
  const double lanes = link.lanes > 0 ? link.lanes : tier == Tier::kDisk ? 1 : into.tensorParallel;
  return link.latencyNs + moveNs(tokens * kvBytesPerToken(into.llm, into.kvBytes()), lanes, bandwidth, link);
}

}  // namespace laxity
