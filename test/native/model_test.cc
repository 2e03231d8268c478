// The latency model: the closed form against the written formulas, monotony over the whole range, tables and
// profiles against naive forms, memory and transfers.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/random.h"
#include "model/latency.h"
#include "model/memory.h"
#include "model/profile.h"
#include "model/roofline.h"
#include "model/roofline_table.h"
#include "model/transfer.h"

using namespace laxity;

namespace {

double log2Uniform(Random& random, double low, double high) {
  return low * std::exp2(random.uniform() * std::log2(high / low));
}

double wholeBetween(Random& random, double low, double high) {
  return std::floor(log2Uniform(random, low, high));
}

/// Any built-in pair, or sizes and peaks nobody has built.
RooflineSpec randomSpec(Random& random) {
  for (;;) {
    RooflineSpec s;
    if (random.below(2) == 0) {
      s.llm = kLlms[random.below(kLlms.size())].spec;
      s.gpu = kGpus[random.below(kGpus.size())].spec;
    } else {
      LlmSpec& m = s.llm;
      m.layers = wholeBetween(random, 1, 200);
      m.hidden = wholeBetween(random, 64, 20'000);
      m.kvHeads = wholeBetween(random, 1, 32);
      m.queryHeads = m.kvHeads * wholeBetween(random, 1, 16);
      m.headDim = wholeBetween(random, 16, 256);
      m.vocabulary = wholeBetween(random, 1000, 300'000);
      if (random.below(2) == 0) {
        m.experts = wholeBetween(random, 2, 512);
        m.expertsPerToken = wholeBetween(random, 1, m.experts);
        m.expertWidth = wholeBetween(random, 64, 8192);
      } else {
        m.ffn = wholeBetween(random, 64, 60'000);
        m.gated = random.below(2) == 0;
      }
      GpuSpec& g = s.gpu;
      g.flops16 = log2Uniform(random, 1e13, 1e16);
      g.flops8 = random.below(2) == 0 ? 0 : 2 * g.flops16;
      g.bandwidth = log2Uniform(random, 1e11, 1e13);
      g.memory = log2Uniform(random, 2e10, 4e11);
      g.peer = g.network = g.pcie = log2Uniform(random, 1e10, 1e12);
      g.interconnect = static_cast<Interconnect>(random.below(2));
      g.kernels = static_cast<std::uint8_t>(random.below(kKernelSets.size()));
    }
    s.tensorParallel = 1u << random.below(4);
    s.weights = static_cast<Precision>(random.below(2));
    s.kv = static_cast<Precision>(random.below(2));
    s.stack = kStacks[random.below(kStacks.size())].stack;
    if (ok(check(s))) return s;
  }
}

/// Section 2 of the reference as it is written: seconds, std::pow, no constant folded.
double naiveMs(const RooflineSpec& s, const IterationLoad& load) {
  const LlmSpec& m = s.llm;
  const KernelSet& k = kKernelSets[s.gpu.kernels];
  const double t = s.tensorParallel;
  const double w = s.weightBytes();
  const double flops = w == 1 ? s.gpu.flops8 : s.gpu.flops16;
  const double bw = s.gpu.bandwidth;
  const auto pn = [](double a, double b, double p) {
    return std::pow(std::pow(a, p) + std::pow(b, p), 1 / p);
  };
  const auto gemm = [&](double T, double n, double kk) {
    const GemmConstants& c = w == 1 ? k.gemm8 : k.gemm16;
    return c.launchUs * 1e-6 +
           pn(2 * T * n * kk / (c.compute * flops), (w * n * kk + 2 * T * (n + kk)) / (c.memory * bw), c.p);
  };
  const double T = load.sequences + load.prefill.fresh;
  const double h = m.hidden;
  const double kv = std::max(1.0, m.kvHeads / t);
  double layer = 0;
  if (T > 0) {
    layer += gemm(T, (m.queryHeads + 2 * std::max(m.kvHeads, t)) * m.headDim / t, h);
    layer += gemm(T, h, m.queryHeads * m.headDim / t);
    double inner = m.ffn;
    if (m.experts > 0) {
      const MixtureConstants& c = w == 1 ? k.mixture8 : k.mixture16;
      const double E = m.experts;
      const double kk = m.expertsPerToken;
      const double width = m.expertWidth;
      const double hit = E * (1 - std::pow(1 - kk / E, c.skew * T));
      layer += gemm(T, E, h);
      layer +=
          c.launchUs * 1e-6 +
          pn(6 * h * (width / t) * (T * kk + c.pad * hit) / (c.compute * flops),
             (3 * h * (width / t) * hit * w + 2 * (T * kk / t) * (2 * h + 3 * width)) / (c.memory * bw), 3) +
          c.perTokenNs * 1e-9 * T / t;
      inner = kk * width;
    } else {
      layer += gemm(T, (m.gated ? 2 : 1) * m.ffn / t, h) + gemm(T, h, m.ffn / t);
    }
    if (t > 1) {
      const int at = t == 2 ? 0 : t == 4 ? 1 : 2;
      AllReduceConstants c = kPcieAllReduce[at];
      if (s.gpu.interconnect == Interconnect::kSwitched)
        c = k.id == "l40s" ? kKernelSets[0].allReduce[at] : k.allReduce[at];
      layer += 2 * (c.launchUs * 1e-6 + 2 * T * h / (c.bandwidthGBps * 1e9));
    }
    layer += 6e-6 + 2 * T * (10 * h + 3 * inner / t) / (0.7 * bw);
  }
  if (load.prefill.fresh > 0) {
    const PrefillAttentionConstants& c = k.prefill;
    const double pairs = load.prefill.pairs + load.prefill.fresh * c.extra / 2;
    layer +=
        c.launchUs * 1e-6 +
        pn(4 * (m.queryHeads / t) * m.headDim * pairs / (c.compute * s.gpu.flops16),
           2 * m.headDim * (2 * (m.queryHeads / t) * load.prefill.fresh + 2 * kv * load.prefill.touched) /
               (c.memory * bw),
           2);
  }
  if (load.sequences > 0) {
    const DecodeAttentionConstants& c = k.decode;
    layer += c.launchUs * 1e-6 + (load.context * 2 * kv * m.headDim * s.kvBytes() +
                                  load.sequences * (m.queryHeads / t) * c.perHead) /
                                     (c.memory * bw);
  }
  const double head = load.samples > 0 ? gemm(load.samples, m.vocabulary / t, h) : 0;
  return s.stack.scale * 1e3 * (m.layers * layer + head) + s.stack.fixedMs +
         s.stack.perSequenceMs * load.samples;
}

IterationLoad randomLoad(Random& random) {
  IterationLoad load;
  const std::uint32_t kind = random.below(3);
  if (kind != 0) {
    load.sequences = wholeBetween(random, 1, 65'536);
    load.context = load.sequences * wholeBetween(random, 1, 100'000);
  }
  if (kind != 1) {
    const std::uint32_t prompts = 1 + random.below(4);
    for (std::uint32_t i = 0; i < prompts; ++i) {
      load.prefill.add(wholeBetween(random, 1, 100'000),
                       random.below(2) == 0 ? 0 : wholeBetween(random, 1, 100'000));
    }
  }
  load.samples = load.sequences + random.below(3);
  return load;
}

LatencyModel modelOf(const RooflineSpec& spec) {
  LatencyModel model;
  REQUIRE(LatencyModel::roofline(spec, &model) == Status::kOk);
  return model;
}

RooflineSpec named(std::string_view llm, std::string_view gpu, std::uint32_t tp) {
  RooflineSpec s;
  s.llm = findLlm(llm)->spec;
  s.gpu = findGpu(gpu)->spec;
  s.tensorParallel = tp;
  return s;
}

Fine fineMs(double ms) { return fineFromMs(ms); }

/// A grid whose times never fall, of the given axes.
ProfileGrid randomGrid(Random& random, bool rowsFromZero, bool columnsFromZero) {
  ProfileGrid grid;
  const auto axis = [&](std::vector<std::uint32_t>& knots, bool fromZero) {
    std::uint32_t at = fromZero && random.below(2) == 0 ? 0 : 1 + random.below(4);
    const std::uint32_t n = 1 + random.below(5);
    for (std::uint32_t i = 0; i < n; ++i) {
      knots.push_back(at);
      at += 1 + random.below(random.below(3) == 0 ? 2000 : 12);
    }
  };
  axis(grid.rows, rowsFromZero);
  axis(grid.columns, columnsFromZero);
  const std::size_t width = grid.columns.size();
  for (std::size_t i = 0; i < grid.rows.size() * width; ++i) {
    Fine floor = 1 << kFineBits;
    if (i % width > 0) floor = std::max(floor, grid.times[i - 1]);
    if (i >= width) floor = std::max(floor, grid.times[i - width]);
    grid.times.push_back(floor + (random.below(4) == 0 ? 0 : fineMs(random.uniform() * 5)));
  }
  return grid;
}

/// Linear between knots in real numbers; clamped below; beyond, the largest last slope.
double naiveGrid(const ProfileGrid& g, double row, double column) {
  const auto value = [&](std::size_t r, std::size_t c) {
    return static_cast<double>(g.times[r * g.columns.size() + c]);
  };
  const auto split = [](const std::vector<std::uint32_t>& knots, double x, std::size_t* i, double* part) {
    *i = 0;
    *part = 0;
    x = std::clamp<double>(x, knots.front(), knots.back());
    while (*i + 1 < knots.size() && knots[*i + 1] <= x) ++*i;
    if (*i + 1 < knots.size()) *part = (x - knots[*i]) / (double(knots[*i + 1]) - knots[*i]);
  };
  std::size_t r, c;
  double pr, pc;
  split(g.rows, row, &r, &pr);
  split(g.columns, column, &c, &pc);
  const std::size_t r1 = std::min(r + 1, g.rows.size() - 1);
  const std::size_t c1 = std::min(c + 1, g.columns.size() - 1);
  double inside = (1 - pr) * ((1 - pc) * value(r, c) + pc * value(r, c1)) +
                  pr * ((1 - pc) * value(r1, c) + pc * value(r1, c1));
  double rowSlope = 0, columnSlope = 0;
  const std::size_t R = g.rows.size(), C = g.columns.size();
  for (std::size_t i = 0; R > 1 && i < C; ++i)
    rowSlope = std::max(rowSlope, (value(R - 1, i) - value(R - 2, i)) / (g.rows[R - 1] - g.rows[R - 2]));
  for (std::size_t i = 0; C > 1 && i < R; ++i) {
    columnSlope =
        std::max(columnSlope, (value(i, C - 1) - value(i, C - 2)) / (g.columns[C - 1] - g.columns[C - 2]));
  }
  return inside + rowSlope * std::max(0.0, row - g.rows.back()) +
         columnSlope * std::max(0.0, column - g.columns.back());
}

}  // namespace

TEST_SUITE("latency model") {
  TEST_CASE("the cube root keeps its digits over all exponents, and its bits") {
    Random random(31);
    long double worst = 0;
    for (int i = 0; i < 300'000; ++i) {
      const double x = std::bit_cast<double>(random.next() >> 1);
      if (!(x > 0) || std::isinf(x)) continue;
      const double y = detCbrt(x);
      const double ulp = std::nextafter(y, INFINITY) - y;
      // Against 80 bits: glibc's own double one errs by up to 4 ulp.
      worst = std::max(worst, std::abs(y - std::cbrt(static_cast<long double>(x))) / ulp);
    }
    CHECK(worst <= 0.67);
    CHECK(detCbrt(0) == 0);
    CHECK(detCbrt(27) == 3);
    CHECK(detCbrt(1e-321) > 0);
    CHECK(std::isnan(detCbrt(-1)));
    CHECK(std::bit_cast<std::uint64_t>(detCbrt(2)) == 0x3ff428a2f98d728bu);
  }

  TEST_CASE("the registry is sound, and its parameter counts are the published ones") {
    for (const LlmEntry& m : kLlms) {
      CAPTURE(m.id);
      CHECK(check(m.spec) == Status::kOk);
      CHECK(findLlm(m.id) == &m);
    }
    for (const GpuEntry& g : kGpus) {
      CAPTURE(g.id);
      CHECK(check(g.spec) == Status::kOk);
      CHECK(findGpu(g.id) == &g);
    }
    CHECK(findLlm("gpt-7") == nullptr);
    CHECK(findGpu("") == nullptr);
    const auto total = [](const char* id) { return parameters(findLlm(id)->spec); };
    CHECK(total("llama-3.1-8b") == 8029995008);
    CHECK(total("llama-3.1-70b") == 70552387584);
    CHECK(total("llama2-70b") == 68975329280);
    CHECK(total("qwen3-32b") == 32761446400);
    CHECK(total("qwen3-30b-a3b") == 30519328768);
    CHECK(total("qwen3-235b-a22b") == 235043553280);
    CHECK(total("opt-13b") == 12840304640);
    CHECK(total("opt-66b") == 65693122560);
    CHECK(total("bloom-176b") == 176234168320);
    CHECK(activeParameters(findLlm("qwen3-30b-a3b")->spec) == 3340238848);
    CHECK(activeParameters(findLlm("qwen3-235b-a22b")->spec) == 22140682240);
    CHECK(kvBytesPerToken(findLlm("llama-3.1-70b")->spec, 2) == 327680);
    CHECK(kvBytesPerToken(findLlm("qwen3-235b-a22b")->spec, 2) == 192512);
  }

  TEST_CASE("the closed form is the written formula, to 1e-11") {
    Random random(32);
    double worst = 0;
    for (int i = 0; i < 20'000; ++i) {
      const RooflineSpec spec = randomSpec(random);
      const IterationLoad load = randomLoad(random);
      const double ms = Roofline(spec).iteration(load) * 1e-6;
      worst = std::max(worst, std::abs(ms / naiveMs(spec, load) - 1));
    }
    CHECK(worst < 1e-11);
  }

  TEST_CASE("pinned values: these bits must be the same on every platform") {
    const Roofline dense(named("llama-3.1-70b", "h100", 4));
    const Roofline mixture(named("qwen3-235b-a22b", "a100-80", 8));
    IterationLoad load{16, 32'000, {}, 16};
    CHECK(dense.iteration(load) == 0x1.f5514334671f9p+23);
    CHECK(mixture.iteration(load) == 0x1.c838979a03442p+24);
    load.prefill.add(512, 1024);
    load.samples = 17;
    CHECK(dense.iteration(load) == 0x1.26977de835eefp+25);
    CHECK(mixture.iteration(load) == 0x1.121184afb248cp+26);
  }

  TEST_CASE("times never fall with more load, and never rise with faster hardware") {
    Random random(33);
    for (int i = 0; i < 20'000; ++i) {
      const RooflineSpec spec = randomSpec(random);
      const Roofline r(spec);
      const IterationLoad load = randomLoad(random);
      const double time = r.iteration(load);
      REQUIRE(std::isfinite(time));
      REQUIRE(time > 0);
      IterationLoad more = load;
      switch (random.below(4)) {
        case 0:
          more.sequences += 1;
          break;
        case 1:
          more.context += 1 + random.below(1000);
          break;
        case 2:
          more.samples += 1;
          break;
        default:
          more.prefill.add(1 + random.below(100), random.below(100));
      }
      REQUIRE(r.iteration(more) > time);

      RooflineSpec faster = spec;
      const double by = 1 + random.uniform();
      if (random.below(2) == 0)
        faster.gpu.bandwidth *= by;
      else if (spec.weights == Precision::kFp8)
        faster.gpu.flops8 *= by;
      else
        faster.gpu.flops16 *= by;
      REQUIRE(Roofline(faster).iteration(load) <= time);
    }
  }

  TEST_CASE("the tabulated model is the closed form rounded, on both sides of the tables' ends") {
    Random random(34);
    for (int i = 0; i < 40; ++i) {
      const RooflineSpec spec = randomSpec(random);
      const Roofline closed(spec);
      const LatencyModel model = modelOf(spec);
      const double fine = 1 << kFineBits;
      const double slope = spec.stack.scale * closed.perContext();
      for (int j = 0; j < 200; ++j) {
        const auto batch = static_cast<std::uint32_t>(wholeBetween(random, 1, 65'537));
        const auto context = static_cast<std::int64_t>(wholeBetween(random, 1, 1e9));
        const DecodePiece piece = model.piece(batch, context);
        REQUIRE(piece.contextEnd == INT64_MAX);
        IterationLoad load;
        load.sequences = load.samples = batch;
        REQUIRE(std::abs(static_cast<double>(piece.base) - closed.iteration(load) * fine) <=
                0.5 + 1e-12 * static_cast<double>(piece.base));
        REQUIRE(std::abs(static_cast<double>(piece.perContext) - slope * fine) <= 0.51);

        const auto fresh = static_cast<std::uint32_t>(wholeBetween(random, 1, 50'000));
        const auto cached = random.below(2) * static_cast<std::uint32_t>(wholeBetween(random, 1, 50'000));
        IterationLoad prompt;
        prompt.prefill.add(fresh, cached);
        prompt.samples = 1;
        REQUIRE(std::abs(static_cast<double>(model.prefill(fresh, cached)) - closed.iteration(prompt)) <=
                0.51);

        prompt.sequences = batch;
        prompt.context = static_cast<double>(context);
        prompt.samples = batch + 1.0;
        const double whole = closed.iteration(prompt);
        const PrefillChunk chunk{0, cached, fresh};
        const MixedPiece mixed = model.mixed(batch, context, {&chunk, 1});
        REQUIRE(mixed.iterations == 1);
        REQUIRE(std::abs(toMs(roundFine(mixed.decode.at(context))) - whole * 1e-6) <=
                1e-6 * (1 + static_cast<double>(context) * 5e-7));
        const MixedPiece alone = model.mixed(0, 0, {&chunk, 1});
        REQUIRE(roundFine(alone.decode.at(0)) == model.prefill(fresh, cached));
        const MixedPiece none = model.mixed(batch, context, {});
        REQUIRE(none.decode.base == piece.base);
        REQUIRE(none.iterations == INT64_MAX);
      }
    }
  }

  TEST_CASE("the tabulated model never falls with batch, context, new or cached tokens") {
    Random random(35);
    for (int i = 0; i < 30; ++i) {
      const LatencyModel model = modelOf(randomSpec(random));
      Fine base = 0;
      for (std::uint32_t batch = 1; batch <= 2 * RooflineTable::kBatch; ++batch) {
        const DecodePiece piece = model.piece(batch, batch);
        REQUIRE(piece.base > base);
        REQUIRE(piece.perContext > 0);
        base = piece.base;
      }
      Nanos last = 0;
      for (std::uint32_t fresh = 0; fresh <= RooflineTable::kTokens + 500; fresh += 1 + random.below(9)) {
        const Nanos now = model.prefill(fresh, 1000);
        REQUIRE(now >= last);
        REQUIRE(model.prefill(fresh, 1001) >= now);
        last = now;
      }
    }
  }

  TEST_CASE("extreme inputs neither overflow nor stop time") {
    Random random(36);
    for (int i = 0; i < 60; ++i) {
      RooflineSpec spec = randomSpec(random);
      if (random.below(2) == 0) {
        spec.gpu.flops16 = 1e11;
        if (spec.weights == Precision::kFp8) spec.gpu.flops8 = 1e11;
        spec.gpu.bandwidth = 1e9;
        spec.llm.layers = 1000;
      }
      REQUIRE(check(spec) == Status::kOk);
      const LatencyModel model = modelOf(spec);
      for (const std::uint32_t tokens : {0u, 1u, 100'000'000u, UINT32_MAX}) {
        for (const std::uint32_t cached : {0u, 100'000'000u, UINT32_MAX}) {
          const Nanos time = model.prefill(tokens, cached);
          REQUIRE(time >= 1);
          REQUIRE(time <= kMaxTime);
        }
      }
      for (const std::uint32_t batch : {1u, 65'535u, 65'536u}) {
        const DecodePiece piece = model.piece(batch, 0);
        REQUIRE(piece.base > 0);
        REQUIRE(piece.base <= Fine{3'600'000'000'000} << kFineBits);
        REQUIRE(piece.at(1'000'000'000'000) > 0);
        const Nanos sum = piece.roundedSum(0, 10'000'000'000, batch, 100'000'000);
        REQUIRE(sum > 0);
        REQUIRE(sum <= kMaxTime);
      }
    }
  }

  TEST_CASE("what cannot be is refused") {
    RooflineSpec spec = named("llama-3.1-70b", "h100", 4);
    LatencyModel model;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kOk);
    for (const std::uint32_t tp : {0u, 3u, 5u, 6u, 7u, 16u}) {
      spec.tensorParallel = tp;
      CHECK(LatencyModel::roofline(spec, &model) == Status::kBadParallelism);
    }
    spec = named("llama-3.1-70b", "h100", 8);
    spec.llm.queryHeads = 28;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kBadParallelism);
    spec = named("qwen3-32b", "a100-80", 1);
    spec.weights = Precision::kFp8;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kNotMeasured);
    spec = named("qwen3-32b", "h100", 1);
    spec.gpu.bandwidth = 0;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kBadValue);
    spec.gpu.bandwidth = NAN;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kBadValue);
    spec = named("qwen3-32b", "h100", 1);
    spec.llm.layers = 1.5;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kBadValue);
    spec = named("qwen3-32b", "h100", 1);
    spec.stack.scale = INFINITY;
    CHECK(LatencyModel::roofline(spec, &model) == Status::kBadValue);
  }

  TEST_CASE("copies and equals") {
    const LatencyModel a = modelOf(named("qwen3-32b", "h100", 2));
    const LatencyModel copy = a;
    CHECK(copy == a);
    CHECK(a == modelOf(named("qwen3-32b", "h100", 2)));
    CHECK(!(a == modelOf(named("qwen3-32b", "h200", 2))));
    CHECK(!(a == LatencyModel{}));
  }
}

TEST_SUITE("measured profile") {
  TEST_CASE("it is the naive interpolation to rounding, its pieces join, and it never falls") {
    Random random(41);
    for (int i = 0; i < 2000; ++i) {
      const ProfileGrid decode = randomGrid(random, false, true);
      const ProfileGrid prefill = randomGrid(random, true, false);
      Profile profile;
      REQUIRE(Profile::create(decode, prefill, &profile) == Status::kOk);
      for (int j = 0; j < 30; ++j) {
        const std::uint32_t batch = 1 + random.below(random.below(2) == 0 ? 8 : 5000);
        const std::int64_t context = random.below(random.below(2) == 0 ? 60 : 6'000'000);
        const DecodePiece piece = profile.piece(batch, context);
        REQUIRE(context < piece.contextEnd);
        const double value = static_cast<double>(piece.at(context));
        const double naive = naiveGrid(decode, batch, static_cast<double>(context) / batch);
        // Slopes are cut to whole units, so an error of one unit per token (and beyond the end, per
        // sequence).
        const double slack = 3 + static_cast<double>(context) + batch + 1e-9 * naive;
        REQUIRE(value <= naive + 2 + 1e-9 * naive);
        REQUIRE(value >= naive - slack);
        REQUIRE(piece.at(context + 1) >= piece.at(context));
        if (piece.contextEnd < INT64_MAX) {
          const DecodePiece next = profile.piece(batch, piece.contextEnd);
          REQUIRE(next.at(piece.contextEnd) >= piece.at(piece.contextEnd - 1));
          REQUIRE(next.contextEnd > piece.contextEnd);
        }
        // At equal context per sequence, up to what the cut slopes lose: 2^-20 ns per token.
        const std::int64_t each = random.below(3000);
        REQUIRE(profile.piece(batch + 1, each * (batch + 1)).at(each * (batch + 1)) >=
                profile.piece(batch, each * batch).at(each * batch) - each * (batch + 1));

        const std::uint32_t fresh = 1 + random.below(random.below(2) == 0 ? 30 : 9000);
        const std::uint32_t cached = random.below(random.below(2) == 0 ? 30 : 9000);
        const Nanos time = profile.prefill(fresh, cached);
        const double ns = naiveGrid(prefill, cached, fresh) / (1 << kFineBits);
        REQUIRE(std::abs(static_cast<double>(time) - ns) <= 1.1);
        REQUIRE(profile.prefill(fresh + 1, cached) >= time);
        REQUIRE(profile.prefill(fresh, cached + 1) >= time);
      }
    }
  }

  TEST_CASE("knots are reproduced exactly where they were measured") {
    ProfileGrid decode{{1, 8}, {1000, 4000}, {fineMs(10), fineMs(13), fineMs(12), fineMs(20)}};
    ProfileGrid prefill{{0}, {512, 2048}, {fineMs(30), fineMs(100)}};
    LatencyModel model;
    REQUIRE(LatencyModel::profile(decode, prefill, &model) == Status::kOk);
    CHECK(model.prefill(512, 0) == 30 * kMillisecond);
    CHECK(model.prefill(2048, 0) == 100 * kMillisecond);
    CHECK(model.prefill(1280, 0) == 65 * kMillisecond);
    CHECK(model.prefill(10, 0) == 30 * kMillisecond);
    CHECK(roundFine(model.piece(8, 8000).at(8000)) == 12 * kMillisecond);
    CHECK(roundFine(model.piece(8, 32'000).at(32'000)) == 20 * kMillisecond);
    CHECK(roundFine(model.piece(1, 10).at(10)) == 10 * kMillisecond);
    CHECK(model.decodeAlone(1000, 1) == 10 * kMillisecond);
    // Two chunks of a prompt cost what the whole does, on top of the decode step.
    const PrefillChunk first{0, 0, 512};
    const PrefillChunk second{0, 512, 1536};
    CHECK(roundFine(model.mixed(0, 0, {&first, 1}).decode.at(0)) == 30 * kMillisecond);
    CHECK(roundFine(model.mixed(8, 8000, {&second, 1}).decode.at(8000)) == 82 * kMillisecond);
    LatencyModel same;
    REQUIRE(LatencyModel::profile(decode, prefill, &same) == Status::kOk);
    CHECK(model == same);
    decode.times[3] += 1;
    REQUIRE(LatencyModel::profile(decode, prefill, &same) == Status::kOk);
    CHECK(!(model == same));
  }

  TEST_CASE("grids that make no sense are refused") {
    const ProfileGrid decode{{1, 8}, {1000}, {fineMs(10), fineMs(12)}};
    const ProfileGrid prefill{{0}, {512, 2048}, {fineMs(30), fineMs(100)}};
    Profile out;
    REQUIRE(Profile::create(decode, prefill, &out) == Status::kOk);
    const auto refused = [&](auto change) {
      ProfileGrid d = decode;
      ProfileGrid p = prefill;
      change(d, p);
      return Profile::create(d, p, &out) == Status::kBadValue;
    };
    CHECK(refused([](auto& d, auto&) { d.rows = {8, 1}; }));
    CHECK(refused([](auto& d, auto&) { d.rows = {0, 8}; }));
    CHECK(refused([](auto& d, auto&) { d.rows.clear(); }));
    CHECK(refused([](auto& d, auto&) { d.times = {fineMs(12), fineMs(10)}; }));
    CHECK(refused([](auto& d, auto&) { d.times[0] = 0; }));
    CHECK(refused([](auto& d, auto&) { d.times.pop_back(); }));
    CHECK(refused([](auto&, auto& p) { p.columns = {0, 512}; }));
    CHECK(refused([](auto&, auto& p) { p.columns = {512, 512}; }));
    CHECK(refused([](auto&, auto& p) { p.times[1] = fineMs(29); }));
    CHECK(refused([](auto&, auto& p) { p.times[1] = INT64_MAX; }));
  }
}

TEST_SUITE("memory and transfer") {
  TEST_CASE("capacity shrinks to does-not-fit, never below zero") {
    std::int64_t tokens = -1;
    CHECK(kvCapacity(named("llama-3.1-70b", "h100", 4), {}, &tokens) == Status::kOk);
    CHECK(tokens == 472092);
    CHECK(kvCapacity(named("qwen3-235b-a22b", "h100", 4), {}, &tokens) == Status::kDoesNotFit);
    CHECK(tokens == 0);
    CHECK(kvCapacity(named("llama-3.1-70b", "h100", 4), {.utilisation = 1.5}, &tokens) == Status::kBadValue);
    // Eight GPUs for four heads hold each head twice.
    const RooflineSpec replicated = named("qwen3-235b-a22b", "h200", 8);
    CHECK(kvCapacity(replicated, {}, &tokens) == Status::kOk);
    CHECK(tokens == 1534846);
    Random random(51);
    for (int i = 0; i < 5000; ++i) {
      RooflineSpec spec = randomSpec(random);
      std::int64_t before = 0;
      std::int64_t after = 0;
      const Status status = kvCapacity(spec, {}, &before);
      REQUIRE((ok(status) ? before >= 1 : before == 0));
      spec.gpu.memory *= 1.5;
      kvCapacity(spec, {}, &after);
      REQUIRE(after >= before);
    }
  }

  TEST_CASE("transfers: the documented times, overlap and compression") {
    // Without the handshake 4,096 tokens over one H100 lane take 37, 22 and 15 ms.
    const auto oneLane = [](const char* llm) {
      const RooflineSpec s = named(llm, "h100", 1);
      return transferNs(s, s, 4096, {.handshakeNs = 0}) * 1e-6;
    };
    CHECK(oneLane("llama-3.1-70b") == doctest::Approx(37.3).epsilon(0.01));
    CHECK(oneLane("qwen3-235b-a22b") == doctest::Approx(21.9).epsilon(0.01));
    CHECK(oneLane("llama-3.1-8b") == doctest::Approx(14.9).epsilon(0.01));

    const RooflineSpec fast = named("llama-3.1-70b", "h100", 8);
    const RooflineSpec slow = named("llama-3.1-70b", "a100-80", 4);
    const double bytes = 10'000.0 * 327'680;
    CHECK(transferNs(fast, slow, 10'000, {}) ==
          doctest::Approx(20'000 + 1e6 + 1e9 * bytes / (4 * 0.72 * 25e9)));
    const double whole = 1e9 * bytes / (4 * 0.72 * 25e9);
    CHECK(overlappedTransferNs(fast, slow, 10'000, 1e12, {}) == doctest::Approx(20'000 + whole / 80));
    CHECK(overlappedTransferNs(fast, slow, 10'000, 0, {}) == doctest::Approx(20'000 + whole / 80 + whole));
    CHECK(transferNs(fast, slow, 10'000, {.compression = 0.25}) == doctest::Approx(20'000 + 1e6 + whole / 4));
    CHECK(loadNs(fast, 10'000, Tier::kHost, {}) == doctest::Approx(20'000 + 1e9 * bytes / (8 * 0.72 * 64e9)));
    CHECK(loadNs(fast, 10'000, Tier::kDisk, {}) > loadNs(fast, 10'000, Tier::kNetwork, {}));
    CHECK(loadNs(fast, 10'000, Tier::kNetwork, {}) > loadNs(fast, 10'000, Tier::kHost, {}));
  }
}
