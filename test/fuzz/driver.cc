// Runs a fuzz target without libFuzzer: replays a corpus, then mutates it, guided by the edges reached where
// the compiler counts them (gcc: -fsanitize-coverage=trace-pc). Deterministic in its seed and number of runs.
// An input that kills the process is left in a file.
//
//     driver [-runs=N] [-seconds=S] [-seed=N] [-crash=FILE] [-keep=FOLDER] CORPUS...
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kMostBytes = 64 * 1024;
constexpr unsigned kSlowestSeconds = 60;

std::uint8_t edges[1 << 16];
std::size_t edgesSeen = 0;

const Bytes* running = nullptr;
std::string crashFile = "crash";

// Only what a signal handler may call.
void saveRunning() {
  if (running == nullptr) return;
  std::FILE* file = std::fopen(crashFile.c_str(), "wb");
  if (file == nullptr) return;
  std::fwrite(running->data(), 1, running->size(), file);
  std::fclose(file);
  running = nullptr;
  const std::string text = "fuzz: the input is in " + crashFile + "\n";
  if (write(2, text.data(), text.size()) < 0) return;
}

void onSignal(int number) {
  if (number == SIGALRM) std::fprintf(stderr, "fuzz: an input takes more than %u s\n", kSlowestSeconds);
  saveRunning();
  signal(number == SIGALRM ? SIGABRT : number, SIG_DFL);
  raise(number == SIGALRM ? SIGABRT : number);
}

void attempt(const Bytes& bytes) {
  // A copy of exactly this size: reading past its end is found.
  const Bytes exact(bytes.begin(), bytes.end());
  running = &exact;
  alarm(kSlowestSeconds);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  alarm(0);
  running = nullptr;
}

Bytes mutate(Bytes bytes, const std::vector<Bytes>& pool, laxity::Random& random) {
  static constexpr std::uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
  const auto place = [&] { return random.below(static_cast<std::uint32_t>(bytes.size())); };
  for (std::uint32_t edits = 1u << random.below(5); edits > 0; --edits) {
    if (bytes.empty()) bytes.push_back(0);
    switch (random.below(8)) {
      case 0:
        bytes[place()] ^= static_cast<std::uint8_t>(1u << random.below(8));
        break;
      case 1:
        bytes[place()] = static_cast<std::uint8_t>(random.below(256));
        break;
      case 2:
        bytes[place()] = kEdges[random.below(6)];
        break;
      case 3: {  // a number at the edge of its width
        const std::uint32_t at = place();
        for (std::uint32_t i = 0; i < (1u << random.below(4)) && at + i < bytes.size(); ++i)
          bytes[at + i] = random.below(8) == 0 ? 0x7f : 0xff;
        break;
      }
      case 4:
        if (bytes.size() < kMostBytes)
          bytes.insert(bytes.begin() + place(), 1 + random.below(8),
                       static_cast<std::uint8_t>(random.below(256)));
        break;
      case 5: {
        const std::uint32_t at = place();
        bytes.erase(bytes.begin() + at,
                    bytes.begin() + std::min<std::size_t>(bytes.size(), at + 1 + random.below(16)));
        break;
      }
      case 6: {  // a stretch goes elsewhere; of 128 at times, the size of a record
        const std::uint32_t from = place();
        const std::uint32_t to = place();
        const std::uint32_t most = random.below(2) == 0 ? 128 : 1 + random.below(32);
        const std::size_t count = std::min<std::size_t>({most, bytes.size() - from, bytes.size() - to});
        std::memmove(&bytes[to], &bytes[from], count);
        break;
      }
      default: {
        const Bytes& other = pool[random.below(static_cast<std::uint32_t>(pool.size()))];
        if (other.empty()) break;
        const std::size_t cut =
            std::min<std::size_t>(bytes.size(), random.below(static_cast<std::uint32_t>(other.size())));
        bytes.resize(cut);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(cut), other.end());
        break;
      }
    }
  }
  if (bytes.size() > kMostBytes) bytes.resize(kMostBytes);
  return bytes;
}

}  // namespace

extern "C" {
void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

// Called at every edge of the code under test, and so itself free of such calls.
__attribute__((no_sanitize("address", "undefined"), no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  std::uint8_t& seen = edges[(pc ^ (pc >> 16)) & 0xffff];
  edgesSeen += seen == 0 ? 1 : 0;
  seen = 1;
}
}

int main(int argc, char** argv) {
  std::uint64_t runs = 0;
  double seconds = 0;
  std::uint64_t seed = 1;
  std::string keep;
  std::vector<Bytes> pool;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const char* name) {
      const std::string prefix = std::string(name) + "=";
      return argument.starts_with(prefix) ? argument.substr(prefix.size()) : "";
    };
    if (const std::string n = value("-runs"); !n.empty()) {
      runs = std::stoull(n);
    } else if (const std::string s = value("-seconds"); !s.empty()) {
      seconds = std::stod(s);
    } else if (const std::string s = value("-seed"); !s.empty()) {
      seed = std::stoull(s);
    } else if (const std::string f = value("-crash"); !f.empty()) {
      crashFile = f;
    } else if (const std::string f = value("-keep"); !f.empty()) {
      keep = f;
    } else {
      std::vector<std::filesystem::path> files;
      if (std::filesystem::is_directory(argument)) {
        for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path());
      } else {
        files.emplace_back(argument);
      }
      std::sort(files.begin(), files.end());
      for (const auto& file : files) {
        std::ifstream in(file, std::ios::binary);
        pool.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
      }
    }
  }
  if (pool.empty()) {
    std::fprintf(stderr, "fuzz: no corpus\n");
    return 2;
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(saveRunning);
  for (const int number : {SIGABRT, SIGALRM}) signal(number, onSignal);
  if (__sanitizer_set_death_callback == nullptr) signal(SIGSEGV, onSignal);

  for (const Bytes& bytes : pool) attempt(bytes);
  const std::size_t replayed = pool.size();
  const std::size_t known = edgesSeen;
  laxity::Random random(seed);
  const auto start = std::chrono::steady_clock::now();
  const auto within = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds;
  };
  std::uint64_t done = 0;
  for (; done < runs || (done % 16 != 0 || within()); ++done) {
    Bytes bytes = mutate(pool[random.below(static_cast<std::uint32_t>(pool.size()))], pool, random);
    const std::size_t before = edgesSeen;
    attempt(bytes);
    if (edgesSeen == before) continue;
    if (!keep.empty()) {
      std::ofstream out(std::filesystem::path(keep) / ("run" + std::to_string(done)), std::ios::binary);
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    pool.push_back(std::move(bytes));
  }
  std::printf("%zu inputs of the corpus, %llu mutations, %zu edges (%zu by the corpus)\n", replayed,
              static_cast<unsigned long long>(done), edgesSeen, known);
  return 0;
}
