#include "model/roofline_table.h"

#include "model/rounding.h"

namespace laxity {

RooflineTable::RooflineTable(const RooflineSpec& spec) : roofline_(spec) {
  linear_.resize(kTokens + 1);
  for (std::uint32_t n = 0; n <= kTokens; ++n) linear_[n] = roofline_.linear(n);
  head_.resize(kBatch + 1);
  for (std::uint32_t n = 0; n <= kBatch; ++n) head_[n] = roofline_.head(n);
  base_.resize(kBatch + 1);
  for (std::uint32_t n = 0; n <= kBatch; ++n) base_[n] = decodeBase(n);
  perContext_ = fineFromNs(roofline_.scale() * roofline_.perContext());
  PrefillLoad probe;
  probe.add(1024, 1024);
  probe_ = roofline_.prefillAttention(probe);
}

Fine RooflineTable::decodeBase(std::uint32_t batch) const {
  const double head = batch <= kBatch ? head_[batch] : roofline_.head(batch);
  return fineFromNs(roofline_.stacked(linear(batch) + head + roofline_.decodeAttention(batch), batch));
}

Nanos RooflineTable::prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
  const std::uint32_t fresh = newTokens > 0 ? newTokens : 1;
  PrefillLoad load;
  load.add(fresh, cachedTokens);
  return nanosFromNs(roofline_.stacked(linear(fresh) + head_[1] + roofline_.prefillAttention(load), 1));
}

DecodePiece RooflineTable::mixed(std::uint32_t batch, std::span<const PrefillChunk> chunks) const {
  PrefillLoad load;
  for (const PrefillChunk& chunk : chunks)
    load.add(chunk.newTokens, static_cast<double>(chunk.cachedTokens) + chunk.doneTokens);
  const double samples = batch + static_cast<double>(chunks.size());
  const double head =
      samples <= kBatch ? head_[static_cast<std::uint32_t>(samples)] : roofline_.head(samples);
  const double kernels =
      linear(batch + load.fresh) + head + roofline_.prefillAttention(load) + roofline_.decodeAttention(batch);
  return {fineFromNs(roofline_.stacked(kernels, samples)), batch > 0 ? perContext_ : 0, INT64_MAX};
}

}  // namespace laxity
