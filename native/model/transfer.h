// Moving KV: from one instance to another, and from a slower tier into an instance (reference
// latency-model.md, section 3).
//
// One linear form, latency + bytes / (lanes * efficiency * bandwidth). The efficiency is what one measured
// H100 inter-node stream reached (35.9 of 50 GB/s); the lane rule, the handshake and the tiers' bandwidths
// are assumed.
#pragma once

#include "model/roofline.h"

namespace laxity {

struct LinkOptions {
  double efficiency = 0.72;
  double latencyNs = 20'000;
  double handshakeNs = 1'000'000;
  double compression = 1;  ///< bytes sent / bytes of KV
  double lanes = 0;        ///< 0: the smaller tensor parallelism
  double bandwidth = 0;    ///< B/s of a lane; 0: the smaller of the two networks
};

/// ns to send the KV of `tokens`. Not overlapped with anything.
double transferNs(const RooflineSpec& from, const RooflineSpec& to, double tokens, const LinkOptions& link);

/// ns that remain after the prefill's end when each layer is sent as soon as it is computed: the last layer,
/// and what the link could not move during `prefillNs`. No handshake: it is hidden.
double overlappedTransferNs(const RooflineSpec& from, const RooflineSpec& to, double tokens, double prefillNs,
                            const LinkOptions& link);

enum class Tier : std::uint8_t {
  kHost = 0,     ///< memory of the host, over each GPU's PCIe
  kDisk = 1,     ///< a local NVMe, shared by the GPUs: 7 GB/s, assumed
  kNetwork = 2,  ///< another host's cache, over each GPU's network
};

/// ns to load the cached KV of `tokens` from a tier. `link.bandwidth` and `link.lanes` override the tier's.
double loadNs(const RooflineSpec& into, double tokens, Tier tier, const LinkOptions& link);

}  // namespace laxity
