#include "scheduler/pairs.h"

#include <algorithm>

namespace laxity {
namespace {

std::int64_t meanContext(const Call& c) { return std::int64_t{c.promptTokens} + c.predictedTokens / 2; }

std::uint32_t outputOf(const Call& c) { return std::max(1u, c.timedTokens); }

/// w_d(kv) - t as an absolute time: when so much is free there without backfill.
Nanos roomAt(const DecodeInstance& d, std::int64_t kv, Nanos t) {
  const std::int64_t need = kv - (d.capacity - d.used);
  if (kv > d.capacity) return kNever;
  if (need <= 0) return t;
  ReleaseWindow window;
  window.set(d.releases.timeline(), t, d.releases.perIteration());
  return window.at(need);
}

}  // namespace

void Pairs::grow(std::size_t calls, std::size_t stride) {
  if (stride != stride_) {
    stride_ = stride;
    decodeAlone_.assign(std::max(calls, calls_.size()) * stride_, kNever);
  }
  if (calls <= calls_.size()) return;
  calls_.resize(calls);
  isolatedDecode_.resize(calls, kNoSlot);
  decodeAlone_.resize(calls * stride_, kNever);
}

Status Pairs::check(const Cluster& cluster, const InstanceSpec& another) {
  std::uint32_t prefill = another.role == Role::kPrefill ? 1 : 0;
  std::uint32_t decode = another.role == Role::kDecode ? 1 : 0;
  for (const HardwareClass& k : cluster.classes()) {
    if (k.spec == another) return Status::kOk;
    ++(k.spec.role == Role::kPrefill ? prefill : decode);
  }
  return std::max(prefill, decode) > kMaxPlannerClasses ? Status::kUnsupported : Status::kOk;
}

void Pairs::rebuild(const Cluster& cluster, const Graph& graph, Nanos t) {
  const auto& classes = cluster.classes();
  poolClass_.assign(classes.size(), 0);
  prefillClasses_.clear();
  decodeClasses_.clear();
  std::vector<DecodeClass> decodeSpecs;
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const bool prefills = classes[k].spec.role == Role::kPrefill;
    std::vector<std::uint32_t>& list = prefills ? prefillClasses_ : decodeClasses_;
    poolClass_[k] = static_cast<std::uint32_t>(list.size());
    list.push_back(k);
    if (!prefills) decodeSpecs.push_back({0, 0, 0, &cluster.latency(classes[k])});
  }
  // A pool needs a class; one without members is never chosen.
  if (decodeSpecs.empty()) decodeSpecs.push_back({});
  prefill_.configure(std::max<std::uint32_t>(1, static_cast<std::uint32_t>(prefillClasses_.size())));
  committed_.configure(decodeSpecs);
  admitted_.configure(decodeSpecs);
  waiting_.configure(prefill_.classes(), committed_.classes());
  linksKnown_ = false;

  prefillInstances_.clear();
  decodeInstances_.clear();
  poolSlot_.assign(cluster.size(), 0);
  clocks_.resize(cluster.size());
  foreign_.resize(cluster.size());
  moving_.assign(classes.size(), 0);
  for (std::uint32_t m = 0; m < cluster.size(); ++m) {
    const Instance& i = cluster.at(m);
    const std::uint32_t k = poolClass_[i.hardwareClass];
    if (i.spec.role == Role::kPrefill) {
      const auto slot = static_cast<std::uint32_t>(prefillInstances_.size());
      poolSlot_[m] = slot;
      prefillInstances_.push_back(m);
      prefill_.add(slot, k, i.tie);
      prefill_.setPresent(slot, i.accepts());
    } else {
      const auto slot = static_cast<std::uint32_t>(decodeInstances_.size());
      poolSlot_[m] = slot;
      decodeInstances_.push_back(m);
      const std::int64_t kv =
          static_cast<std::int64_t>(static_cast<double>(i.spec.kvTokens) * std::min(1.0, terms.overcommit));
      committed_.add(slot, k, std::max<std::int64_t>(1, kv), i.tie);
      admitted_.add(slot, k, std::max<std::int64_t>(1, kv), i.tie);
      committed_.setPresent(slot, i.accepts());
      admitted_.setPresent(slot, i.accepts());
      DecodeClock& clock = clocks_[m];
      clock.batch = 0;
      clock.context = 0;
    }
  }
  for (std::uint32_t slot = 0; slot < calls_.size(); ++slot) {
    const PairCall& pair = calls_[slot];
    if (pair.decode == kNoSlot) continue;
    if (pair.moving) {
      ++moving_[cluster.at(graph.call(slot).instance).hardwareClass];
      ++moving_[cluster.at(pair.decode).hardwareClass];
    }
    const std::uint32_t d = poolSlot_[pair.decode];
    committed_.reserve(slot, d, pair.cost.kv, pair.cost.context, pair.cost.sequences, pair.finish);
    if (pair.admitted)
      admitted_.reserve(slot, d, pair.cost.kv, pair.cost.context, pair.cost.sequences, pair.finish);
    if (!pair.running) continue;
    // What it has decoded is not known to the iteration: it keeps its projected finish.
    clocks_[pair.decode].batch += pair.cost.sequences;
    clocks_[pair.decode].context += pair.context;
  }
  for (const std::uint32_t m : decodeInstances_) {
    retime(cluster, m, t, 0, 0);
    committed_.setForeign(poolSlot_[m], foreign_[m].kv, foreign_[m].sequences, foreign_[m].until);
  }
  pressure_.resize(classes.size());
  for (const std::uint32_t k : decodeClasses_) {
    std::int64_t held = 0;
    std::int64_t capacity = 0;
    for (const std::uint32_t m : classes[k].members) {
      const DecodeInstance& d = committed_.at(poolSlot_[m]);
      held += d.used;
      if (d.present) capacity += d.capacity;
    }
    pressure_.set(k, held, capacity, t);
  }
  slowed_.resize(classes.size());
  for (std::uint32_t k = 0; k < classes.size(); ++k) slow(cluster, k);
}

/// The running set of d changes by so many sequences and tokens of context.
void Pairs::retime(const Cluster& cluster, std::uint32_t decode, Nanos t, std::int64_t sequences,
                   std::int64_t context) {
  DecodeClock& clock = clocks_[decode];
  if (clock.batch == 0) {
    clock.at = t;
  } else if (t > clock.at) {
    const std::int64_t passed = (t - clock.at) / clock.perIteration;
    clock.iteration += passed;
    clock.at += passed * clock.perIteration;
  }
  clock.batch = static_cast<std::uint32_t>(clock.batch + sequences);
  clock.context += context;
  const DecodePiece piece =
      cluster.latency(cluster.at(decode)).piece(std::max(1u, clock.batch), clock.context);
  clock.perIteration = std::max<Nanos>(1, roundFine(piece.at(clock.context)));
  const std::uint32_t slot = poolSlot_[decode];
  committed_.setClock(slot, clock.at, clock.iteration, clock.perIteration);
  admitted_.setClock(slot, clock.at, clock.iteration, clock.perIteration);
}

// --- leg d

void Pairs::commit(const Cluster& cluster, std::uint32_t slot, std::uint32_t decode, const CallCost& cost,
                   Nanos kvReady, Nanos finish, Nanos t) {
  PairCall& pair = calls_[slot];
  pair.decode = decode;
  pair.cost = cost;
  pair.kvReady = kvReady;
  pair.finish = std::min(finish, kMaxTime);
  committed_.reserve(slot, poolSlot_[decode], cost.kv, cost.context, cost.sequences, pair.finish);
  pressure_.change(cluster.at(decode).hardwareClass, cost.kv, t);
  pair.previousOnDecode = kNoSlot;
  pair.nextOnDecode = cluster.at(decode).firstLease;
  if (pair.nextOnDecode != kNoSlot) calls_[pair.nextOnDecode].previousOnDecode = slot;
}

void Pairs::admit(std::uint32_t slot, Nanos finish) {
  PairCall& pair = calls_[slot];
  pair.admitted = true;
  pair.finish = std::min(finish, kMaxTime);
  admitted_.reserve(slot, poolSlot_[pair.decode], pair.cost.kv, pair.cost.context, pair.cost.sequences,
                    pair.finish);
  committed_.expect(slot, pair.finish);
}

void Pairs::expect(std::uint32_t slot, Nanos kvReady, Nanos finish) {
  PairCall& pair = calls_[slot];
  pair.kvReady = kvReady;
  pair.finish = std::min(finish, kMaxTime);
  committed_.expect(slot, pair.finish);
  if (pair.admitted) admitted_.expect(slot, pair.finish);
}

void Pairs::run(const Cluster& cluster, const Call& c, std::uint32_t slot, Nanos t) {
  PairCall& pair = calls_[slot];
  pair.running = true;
  pair.context = meanContext(c);
  retime(cluster, pair.decode, t, pair.cost.sequences, pair.context);
  const DecodeClock& clock = clocks_[pair.decode];
  // It joins at the end of the iteration under way; the prefill emitted one token.
  const std::int64_t join = clock.iteration + (t > clock.at ? 1 : 0);
  const std::int64_t end = join + std::max<std::int64_t>(1, std::int64_t{outputOf(c)} - 1);
  committed_.run(slot, end);
  admitted_.run(slot, end);
  pair.finish = std::min(kMaxTime, clock.at + (end - clock.iteration) * clock.perIteration);
}

void Pairs::release(const Cluster& cluster, std::uint32_t slot, Nanos t) {
  PairCall& pair = calls_[slot];
  committed_.release(slot);
  pressure_.change(cluster.at(pair.decode).hardwareClass, -pair.cost.kv, t);
  if (pair.admitted) admitted_.release(slot);
  if (pair.running) retime(cluster, pair.decode, t, -std::int64_t{pair.cost.sequences}, -pair.context);
  if (pair.previousOnDecode != kNoSlot) calls_[pair.previousOnDecode].nextOnDecode = pair.nextOnDecode;
  if (pair.nextOnDecode != kNoSlot) calls_[pair.nextOnDecode].previousOnDecode = pair.previousOnDecode;
  pair.decode = kNoSlot;
  pair.admitted = pair.running = pair.unasked = false;
}

void Pairs::setForeign(std::uint32_t decode, const ForeignLoad& load) {
  foreign_[decode] = load;
  committed_.setForeign(poolSlot_[decode], load.kv, load.sequences, load.until);
}

void Pairs::move(const Cluster& cluster, std::uint32_t slot, std::uint32_t prefill, bool begins) {
  PairCall& pair = calls_[slot];
  if (pair.moving == begins) return;
  pair.moving = begins;
  const std::uint32_t by = begins ? 1 : ~std::uint32_t{0};
  for (const std::uint32_t m : {prefill, pair.decode}) {
    const std::uint32_t k = cluster.at(m).hardwareClass;
    moving_[k] += by;
    slow(cluster, k);
  }
}

// --- projections

/// What a token takes through the ends of a class now.
void Pairs::slow(const Cluster& cluster, std::uint32_t hardwareClass) {
  const HardwareClass& k = cluster.classes()[hardwareClass];
  const Fine alone = k.spec.linkPerToken;
  const std::uint32_t moving = options.links == Links::kFree ? 0 : moving_[hardwareClass];
  slowed_[hardwareClass] = alone + static_cast<Fine>(FineSum{alone} * moving / std::max(1u, k.present));
}

Nanos Pairs::transferNow(const Cluster& cluster, std::uint32_t prefill, std::uint32_t decode,
                         std::uint32_t prompt) const {
  const Instance& p = cluster.at(prefill);
  const Instance& d = cluster.at(decode);
  const Fine perToken = std::max(slowed_[p.hardwareClass], slowed_[d.hardwareClass]);
  return linkLatency(p.spec, d.spec) + roundFine(FineSum{perToken} * tokensToMove(prompt, terms.overlap));
}

Nanos Pairs::finishOn(const Call& c, std::uint32_t decode, Nanos ready, Nanos t) const {
  const DecodeInstance& d = committed_.at(poolSlot_[decode]);
  const Nanos room =
      roomAt(d, std::int64_t{c.promptTokens} + std::int64_t{c.predictedTokens} * c.sequences, t);
  if (room == kNever) return kMaxTime;
  return std::min(kMaxTime, std::max(ready, room) + outputOf(c) * d.perToken);
}

Nanos Pairs::decodeFinish(const Call& c, const PairCall& pair, Nanos t) const {
  const DecodeInstance& d = admitted_.at(poolSlot_[pair.decode]);
  const Nanos room = pair.admitted ? t : roomAt(d, pair.cost.kv, t);
  if (room == kNever) return kMaxTime;
  return std::min(kMaxTime, std::max({t, pair.kvReady, room}) + outputOf(c) * d.perToken);
}

Pairs::Projection Pairs::best(const Cluster& cluster, const Call& c, const Estimate* estimates,
                              const Nanos* decodeAlone, std::uint32_t prefill, Nanos t) const {
  Projection best;
  double bestCost = 0;
  std::uint64_t bestDecodeTie = 0;
  std::uint64_t bestPrefillTie = 0;
  const std::int64_t kv = std::int64_t{c.promptTokens} + std::int64_t{c.predictedTokens} * c.sequences;
  const auto offer = [&](std::uint32_t p) {
    const Instance& from = cluster.at(p);
    if (estimates[from.hardwareClass].exec == kNever) return;
    const Estimate& e = estimates[from.hardwareClass];
    const Nanos time = c.hasCached ? withCachedPrefix(e, c, p, cluster.latency(from)).prefill : e.prefill;
    const Nanos end = std::max(readyAt(from, t), t) + time;
    for (std::uint32_t g = 0; g < committed_.classes() && g < decodeClasses_.size(); ++g) {
      if (decodeAlone[decodeClasses_[g]] == kNever) continue;
      const auto& list = committed_.list(g);
      if (list.empty()) continue;
      const Nanos ready = end + transferNow(cluster, p, decodeInstances_[list.front().slot], c.promptTokens);
      const double share = priceWeight_ > 0 ? kvPrice(cluster, g, t) * static_cast<double>(kv) : 0;
      for (const DecodeCandidate& candidate : list) {
        const DecodeInstance& d = committed_.at(candidate.slot);
        const Nanos service = outputOf(c) * d.perToken;
        const double charge = static_cast<double>(service) * share;
        const auto costs = [&](Nanos finish) { return static_cast<double>(finish - t) + charge; };
        if (best.decode != kNoSlot && costs(ready + service) > bestCost) break;
        const Nanos room = roomAt(d, kv, t);
        if (room == kNever) continue;
        const Nanos finish = std::max(ready, room) + service;
        const double cost = costs(finish);
        const bool first =
            best.decode == kNoSlot || cost < bestCost || (cost == bestCost && finish < best.finish);
        const bool tied = cost == bestCost && finish == best.finish &&
                          (ready != best.ready      ? ready < best.ready
                           : d.tie != bestDecodeTie ? d.tie < bestDecodeTie
                                                    : from.tie < bestPrefillTie);
        if (first || tied) {
          best = {p, decodeInstances_[candidate.slot], ready, finish};
          bestCost = cost;
          bestDecodeTie = d.tie;
          bestPrefillTie = from.tie;
        }
        if (room <= ready) break;
      }
    }
  };
  if (prefill != kNoSlot) {
    offer(prefill);
    return best;
  }
  for (const std::uint32_t p : prefillInstances_) {
    if (cluster.at(p).accepts()) offer(p);
  }
  return best;
}

std::uint32_t Pairs::freeChoice(const Cluster& cluster, const Call& c, std::uint32_t slot,
                                std::uint32_t prefill, std::uint32_t avoid, Nanos t) {
  if (avoid != kNoSlot && cluster.at(avoid).accepts()) {
    admitted_.setPresent(poolSlot_[avoid], false);
    const std::uint32_t other = freeChoice(cluster, c, slot, prefill, kNoSlot, t);
    admitted_.setPresent(poolSlot_[avoid], true);
    if (other != kNoSlot) return other;
  }
  transferRow_.assign(committed_.classes(), kNever);
  for (std::uint32_t g = 0; g < decodeClasses_.size(); ++g) {
    const auto& list = admitted_.list(g);
    if (decodeAlone(slot)[decodeClasses_[g]] == kNever || list.empty()) continue;
    transferRow_[g] = transferNow(cluster, prefill, decodeInstances_[list.front().slot], c.promptTokens);
  }
  WaitingDecode waiting;
  waiting.slot = slot;
  waiting.rank = c.rank;
  waiting.kv = std::int64_t{c.promptTokens} + std::int64_t{c.predictedTokens} * c.sequences;
  waiting.output = outputOf(c);
  waiting.sequences = c.sequences;
  waiting.transfer = transferRow_.data();
  const auto entries = decodePlanner_.plan(t, admitted_, {&waiting, 1}, 1);
  return entries.empty() ? kNoSlot : decodeInstances_[entries.front().decode];
}

// --- the planner

void Pairs::addWaiting(const Cluster& cluster, const Call& c, const Workflow& w, std::uint32_t slot,
                       const Estimate* estimates) {
  WaitingCall waiting;
  waiting.arrival = w.arrival;
  waiting.rank = c.rank;
  waiting.kv = std::int64_t{c.promptTokens} + std::int64_t{c.predictedTokens} * c.sequences;
  waiting.output = outputOf(c);
  waiting.sequences = c.sequences;
  prefillRow_.assign(prefill_.classes(), kNever);
  for (std::uint32_t h = 0; h < prefillClasses_.size(); ++h) {
    const Estimate& e = estimates[prefillClasses_[h]];
    if (e.exec != kNever) prefillRow_[h] = e.prefill;
  }
  if (c.hasCached) {
    std::uint32_t count = 0;
    for (const CachedPrefix& cached : c.cached) {
      if (cached.instance == kNoSlot || cached.tokens == 0 || cached.instance >= cluster.size()) continue;
      const Instance& i = cluster.at(cached.instance);
      const Estimate& e = estimates[i.hardwareClass];
      if (i.spec.role != Role::kPrefill || e.exec == kNever) continue;
      waiting.holders[count++] = {poolSlot_[cached.instance],
                                  withCachedPrefix(e, c, cached.instance, cluster.latency(i)).prefill};
    }
  }
  waiting.moved = static_cast<std::uint32_t>(
      std::min<std::int64_t>(kMaxMoved, tokensToMove(c.promptTokens, terms.overlap)));
  transferRow_.assign(std::size_t{prefill_.classes()} * committed_.classes(), kNever);
  for (std::uint32_t h = 0; h < prefillClasses_.size(); ++h) {
    if (prefillRow_[h] == kNever) continue;
    const InstanceSpec& from = cluster.classes()[prefillClasses_[h]].spec;
    for (std::uint32_t g = 0; g < decodeClasses_.size(); ++g) {
      if (decodeAlone(slot)[decodeClasses_[g]] == kNever) continue;
      transferRow_[std::size_t{h} * committed_.classes() + g] =
          linkLatency(from, cluster.classes()[decodeClasses_[g]].spec);
    }
  }
  waiting_.add(slot, waiting, prefillRow_, transferRow_);
}

double Pairs::kvPrice(const Cluster& cluster, std::uint32_t decodeClass, Nanos t) const {
  const std::uint32_t k = decodeClasses_[decodeClass];
  const double price = priceWeight_ > 0 ? pressure_.price(k, priceWeight_, t) : 0;
  if (price == 0) return 0;
  return price / std::min(1.0, terms.overcommit) / static_cast<double>(cluster.classes()[k].spec.kvTokens);
}

void Pairs::removeWaiting(std::uint32_t slot) {
  if (waiting_.holds(slot)) waiting_.remove(slot);
}

/// The links at their present load, for the planner: whole nanoseconds per token.
void Pairs::refreshLinks() {
  if (linksKnown_ && options.links == Links::kFree) return;
  linksKnown_ = true;
  for (std::uint32_t h = 0; h < prefillClasses_.size(); ++h) {
    for (std::uint32_t g = 0; g < decodeClasses_.size(); ++g) {
      const Fine perToken = std::max(slowed_[prefillClasses_[h]], slowed_[decodeClasses_[g]]);
      waiting_.setLink(h, g, roundFine(perToken));
    }
  }
}

}  // namespace laxity
