#include "tuner/service.h"

#include <algorithm>

#include "base/math.h"

namespace laxity {
namespace {

constexpr std::int64_t kOne = 1 << 16;  // an iteration
constexpr std::int64_t kSpan = 64;      // iterations whose time is computed at once: rounding matters less
constexpr std::uint32_t kMemory = 16;
constexpr double kMostLog = 4.158883083359672;  // ln 64

}  // namespace

void Service::advance(Meter& m, Nanos t) const {
  const Nanos elapsed = t - m.at;
  m.at = t;
  if (elapsed <= 0 || m.running == 0) return;
  if (m.spec.mode == EngineMode::kPrefillFirst && m.unprefilled > 0) return;
  const LatencyModel& latency = latencies_[m.spec.latency];
  const std::int64_t grown = std::int64_t{m.running} * m.expected - m.expectedAtFirst;
  const std::int64_t context = m.contextAtFirst + grown / kOne;
  const DecodePiece piece = latency.piece(m.running, context);
  Nanos time = piece.roundedSum(0, context, m.running, kSpan);
  if (m.unprefilled > 0 && m.spec.mode == EngineMode::kChunked && m.spec.chunkTokens > m.running)
    time += kSpan * latency.prefill(m.spec.chunkTokens - m.running, 0);
  __int128_t iterations = static_cast<__int128_t>(elapsed) * kSpan * kOne / std::max<Nanos>(1, time);
  if (m.unprefilled > 0 && m.spec.mode == EngineMode::kDecodeShare)
    iterations = iterations * m.spec.decodeShare / kDecodeShareUnit;
  m.expected += static_cast<std::int64_t>(std::min<__int128_t>(iterations, std::int64_t{1} << 60));
}

bool Service::observe(const EventRecord& record, ServiceSample* sample) {
  const Nanos t = record.header.t;
  switch (record.header.kind) {
    case EventKind::kInstance: {
      const InstanceEvent& e = record.instance;
      if (e.instance >= instances_.size()) instances_.resize(std::size_t{e.instance} + 1);
      Meter& m = instances_[e.instance];
      if (e.change == InstanceChange::kAdd) {
        m.spec = e.spec;
        m.at = t;
      }
      static constexpr Condition kConditions[] = {Condition::kUp, Condition::kUp, Condition::kDraining,
                                                  Condition::kDown, Condition::kRemoved};
      m.condition = kConditions[static_cast<std::uint32_t>(e.change)];
      if (e.change == InstanceChange::kDown) {
        while (!m.leases.empty()) leave(m.leases.back(), t);
      }
      break;
    }
    case EventKind::kReveal: {
      const Reveal& e = record.reveal;
      if (e.call.slot >= calls_.size()) calls_.resize(std::size_t{e.call.slot} + 1);
      if (calls_[e.call.slot].instance != kNoSlot) leave(e.call.slot, t);
      calls_[e.call.slot] = Seen{};
      calls_[e.call.slot].generation = e.call.generation;
      calls_[e.call.slot].promptTokens = e.promptTokens;
      std::copy(std::begin(e.cached), std::end(e.cached), calls_[e.call.slot].cached);
      break;
    }
    case EventKind::kDecision: {
      const Decision& d = record.decision;
      Seen* c = find(d.call);
      if (c == nullptr) break;
      if (d.kind == DecisionKind::kAdmitDecode) {
        c->decode = d.decodeInstance;
        break;
      }
      if (c->instance != kNoSlot) leave(d.call.slot, t);  // lost, or granted again
      if (d.kind != DecisionKind::kLease || d.instance >= instances_.size()) break;
      c->disturbed |= d.epoch > 0;
      c->epoch = d.epoch;
      c->instance = d.instance;
      c->decode = d.decodeInstance;
      c->joined = false;
      c->leasedAt = t;
      c->firstTokenAt = -1;
      Meter& m = instances_[d.instance];
      advance(m, t);
      m.leases.push_back(d.call.slot);
      ++m.unprefilled;
      break;
    }
    case EventKind::kFirstToken:
      return firstToken(record.call.attempt, t, sample);
    case EventKind::kTransferDone: {
      Seen* c = find(record.call.attempt.call);
      if (!followsDecode_ || c == nullptr || c->instance != kNoSlot || c->firstTokenAt < 0 ||
          c->epoch != record.call.attempt.epoch || c->decode >= instances_.size())
        break;
      c->instance = c->decode;
      Meter& m = instances_[c->decode];
      advance(m, t);
      m.leases.push_back(record.call.attempt.call.slot);
      c->firstTokenAt = t;
      join(*c);
      break;
    }
    case EventKind::kEvicted:
    case EventKind::kFailed: {
      const CallAttempt& a =
          record.header.kind == EventKind::kEvicted ? record.evicted.attempt : record.failed.attempt;
      Seen* c = find(a.call);
      if (c != nullptr && c->instance != kNoSlot && c->epoch == a.epoch) leave(a.call.slot, t);
      break;
    }
    case EventKind::kCancel: {
      Seen* c = find(record.call.attempt.call);
      if (c != nullptr && c->instance != kNoSlot) leave(record.call.attempt.call.slot, t);
      break;
    }
    case EventKind::kFinished:
      return finished(record.finished, t, sample);
    case EventKind::kSetLatency: {
      const SetLatency& e = record.setLatency;
      LatencyModel model;
      const LatencyConstants constants{e.prefillBaseMs, e.prefillPerTokenMs, e.decodeBaseMs,
                                       e.decodePerSequenceMs, e.decodePerContextMs};
      if (e.latency > 0xffff || !ok(LatencyModel::constants(constants, &model))) break;
      if (e.latency >= latencies_.size()) latencies_.resize(std::size_t{e.latency} + 1, model);
      latencies_[e.latency] = model;
      std::erase_if(given_, [&](const GivenLatency& g) { return g.index == e.latency; });
      given_.push_back({e.latency, e.learned, constants});
      break;
    }
    default:
      break;
  }
  return false;
}

bool Service::firstToken(const CallAttempt& attempt, Nanos t, ServiceSample* sample) {
  Seen* c = find(attempt.call);
  if (c == nullptr || c->instance == kNoSlot || c->firstTokenAt >= 0 || c->epoch != attempt.epoch)
    return false;
  const std::uint32_t at = c->instance;
  Meter& m = instances_[at];
  advance(m, t);
  c->prefillFrom = std::max(c->leasedAt, m.lastFirstToken);
  if (m.spec.role == Role::kUnified) {
    --m.unprefilled;
    c->firstTokenAt = m.lastFirstToken = t;
    join(*c);
    return false;
  }
  const bool disturbed = c->disturbed;
  leave(attempt.call.slot, t);
  c->disturbed = disturbed;
  c->firstTokenAt = m.lastFirstToken = t;
  if (disturbed || m.spec.chunkTokens > 0 || t <= c->prefillFrom) return false;
  return observed(at, toSeconds(t - c->prefillFrom), toSeconds(prefillOf(*c, at)), c->leasedAt, sample);
}

void Service::join(Seen& c) {
  Meter& m = instances_[c.instance];
  ++m.running;
  c.joined = true;
  c.expectedAtFirst = m.expected;
  m.contextAtFirst += c.promptTokens + 1;
  m.expectedAtFirst += m.expected;
}

Nanos Service::prefillOf(const Seen& c, std::uint32_t m) const {
  std::uint32_t cached = 0;
  for (const CachedPrefix& held : c.cached) {
    if (held.instance == m && held.tokens < c.promptTokens) cached = held.tokens;
  }
  return latencies_[instances_[m].spec.latency].prefill(c.promptTokens - cached, cached);
}

bool Service::observed(std::uint32_t at, double actual, double predicted, Nanos leasedAt,
                       ServiceSample* sample) {
  if (!(predicted > 0)) return false;
  Meter& m = instances_[at];
  const double x = std::clamp(detLog(actual / predicted), -kMostLog, kMostLog);
  if (m.samples < kMemory) ++m.samples;
  m.logFactor += (x - m.logFactor) / m.samples;
  *sample = {at, x, leasedAt};
  return true;
}

void Service::leave(std::uint32_t slot, Nanos t) {
  Seen& c = calls_[slot];
  Meter& m = instances_[c.instance];
  advance(m, t);
  m.leases.erase(std::find(m.leases.begin(), m.leases.end(), slot));
  if (c.joined) {
    --m.running;
    m.contextAtFirst -= c.promptTokens + 1;
    m.expectedAtFirst -= c.expectedAtFirst;
  } else {
    --m.unprefilled;
  }
  c.instance = kNoSlot;
  c.joined = false;
  c.disturbed = true;
}

bool Service::finished(const Finished& e, Nanos t, ServiceSample* sample) {
  Seen* c = find(e.attempt.call);
  if (c == nullptr || c->instance == kNoSlot || c->epoch != e.attempt.epoch) return false;
  const Seen call = *c;
  const std::uint32_t at = c->instance;
  leave(e.attempt.call.slot, t);
  if (call.disturbed || call.firstTokenAt < 0 || e.outputTokens < kLeastTokens + 1) return false;
  Meter& m = instances_[at];
  const std::int64_t grown = m.expected - call.expectedAtFirst;
  const Nanos decode = t - call.firstTokenAt;
  if (grown <= 0 || decode <= 0) return false;
  // decode = actual; predicted decode = decode * n / E
  double actual = toSeconds(decode);
  double predicted = actual * static_cast<double>(e.outputTokens - 1) * static_cast<double>(kOne) /
                     static_cast<double>(grown);
  if (m.spec.role == Role::kUnified && m.spec.mode == EngineMode::kPrefillFirst &&
      call.firstTokenAt > call.prefillFrom) {
    actual += toSeconds(call.firstTokenAt - call.prefillFrom);
    predicted += toSeconds(prefillOf(call, at));
  }
  return observed(at, actual, predicted, call.leasedAt, sample);
}

double Service::factor(std::uint32_t m) const { return detExp(instances_[m].logFactor); }

Nanos Service::alone(std::uint16_t model, std::uint32_t promptTokens, std::uint32_t outputTokens) const {
  __int128_t sum[2] = {0, 0};  // of prefills, of decodes
  std::int64_t count[2] = {0, 0};
  bool paired = false;
  for (const Meter& m : instances_) {
    if (m.condition != Condition::kUp || m.spec.model != model || m.spec.latency >= latencies_.size())
      continue;
    const LatencyModel& latency = latencies_[m.spec.latency];
    paired |= m.spec.role != Role::kUnified;
    if (m.spec.role != Role::kDecode) {
      sum[0] += latency.prefill(promptTokens, 0);
      ++count[0];
    }
    if (m.spec.role != Role::kPrefill) {
      sum[1] += latency.decodeAlone(promptTokens + 1, outputTokens - 1);
      ++count[1];
    }
  }
  if (count[0] == 0 || count[1] == 0) return 0;
  if (!paired) return static_cast<Nanos>((sum[0] + sum[1]) / count[0]);
  return static_cast<Nanos>(sum[0] / count[0] + sum[1] / count[1]);
}

}  // namespace laxity
