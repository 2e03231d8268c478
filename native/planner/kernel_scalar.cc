// The inner loops one lane at a time: for processors without AVX2, and the twin that the vector ones must
// equal.
#include "planner/frame.h"

namespace laxity {
namespace {

void raise(Frame& f, std::uint32_t group) {
  const double* lane = &f.score[std::size_t{group} * kLanes];
  f.best[group] = std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
}

std::uint32_t pick(Frame& f) {
  for (;;) {
    const double* best = f.best.data();
    double top = std::numeric_limits<double>::lowest();
    std::uint32_t group = kNoSlot;
    bool tie = false;
    for (std::uint32_t g = 0; g < f.groups; ++g) {
      if (best[g] < top) continue;
      tie = best[g] == top;
      top = best[g];
      if (!tie) group = g;
    }
    if (group == kNoSlot) return kNoSlot;
    std::uint32_t chosen = firstOf(f, group, top, kNoSlot);
    for (std::uint32_t g = group + 1; tie && g < f.groups; ++g) {
      if (best[g] == top) chosen = firstOf(f, g, top, chosen);
    }
    if (!stale(f, chosen)) return chosen;
    evaluateLane(f, chosen);
    f.staleIn[chosen / kLanes] &= static_cast<std::uint8_t>(~(1u << (chosen % kLanes)));
    raise(f, chosen / kLanes);
  }
}

std::uint32_t first(Frame& f) {
  for (std::uint32_t i = 0; i < f.size; ++i) evaluateLane(f, i);
  for (std::uint32_t group = 0; group < f.groups; ++group) raise(f, group);
  return pick(f);
}

std::uint32_t next(Frame& f, const Changed& changed) {
  const std::int32_t* source = f.source.data();
  const double* decodeRank = f.decodeRank.data();
  const bool fit = f.allFit(changed.decode);
  if (!fit) {
    std::uint32_t asking = 0;
    for (std::uint32_t i = 0; i < f.size; ++i) asking += decodeRank[i] == changed.decodeRank ? 1 : 0;
    f.expectWaits(changed.decode, asking);
  }
  const double perToken = f.decode.candidate(changed.decode)->perToken;
  const double price = f.prices[f.decode.classOf(changed.decode)];
  for (std::uint32_t group = 0; group < f.groups; ++group) {
    std::uint8_t touched = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t i = group * kLanes + lane;
      const bool decode = decodeRank[i] == changed.decodeRank;
      if (!decode && source[i] != changed.representative && source[i] != changed.instance) continue;
      if (decode) {
        f.wait[i] = fit ? 0 : f.waitOf(changed.decode, i);
        f.service[i] = f.output(i) * perToken;
        f.charge[i] = f.service[i] * (price * f.tokens[i]);
      }
      f.score[i] = f.boundOf(i);
      touched |= static_cast<std::uint8_t>(1u << lane);
    }
    if (touched == 0) continue;
    f.staleIn[group] |= touched;
    raise(f, group);
  }
  return pick(f);
}

}  // namespace

const Kernel kScalarKernel{first, next};

}  // namespace laxity
