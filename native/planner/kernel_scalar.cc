// The inner loops one lane at a time: for processors without AVX2, and the twin that the vector ones must
// equal.
#include "planner/frame.h"

namespace laxity {
namespace {

void raise(Frame& f, std::uint32_t group) {
  const double* lane = &f.score[std::size_t{group} * kLanes];
  f.best[group] = std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
}

void all(Frame& f) {
  for (std::uint32_t i = 0; i < f.size; ++i) evaluateLane(f, i);
  for (std::uint32_t group = 0; group < f.groups; ++group) raise(f, group);
}

std::uint32_t next(Frame& f, const Changed& changed) {
  const std::int32_t* source = f.source.data();
  const double* decodeRank = f.decodeRank.data();
  std::uint32_t onDecode = 0;
  for (std::uint32_t i = 0; i < f.size; ++i) onDecode += decodeRank[i] == changed.decodeRank ? 1 : 0;
  f.expectWaits(changed.decode, onDecode);
  const double perToken = f.decode.candidate(changed.decode)->perToken;
  for (std::uint32_t group = 0; group < f.groups; ++group) {
    std::uint8_t touched = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t i = group * kLanes + lane;
      const bool decode = decodeRank[i] == changed.decodeRank;
      if (!decode && source[i] != changed.representative && source[i] != changed.instance) continue;
      if (decode) {
        f.wait[i] = f.waitOf(changed.decode, i);
        f.service[i] = f.output(i) * perToken;
      }
      f.score[i] = f.valueOf(i);
      touched |= static_cast<std::uint8_t>(1u << lane);
    }
    if (touched == 0) continue;
    f.staleIn[group] |= touched;
    raise(f, group);
  }
  return pickExact(f, [&](std::uint32_t i) {
    evaluateLane(f, i);
    f.staleIn[i / kLanes] &= static_cast<std::uint8_t>(~(1u << (i % kLanes)));
    raise(f, i / kLanes);
  });
}

}  // namespace

const Kernel kScalarKernel{all, next};

}  // namespace laxity
