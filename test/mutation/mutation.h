// What a tree under test holds besides the core: which of its mutants is active, and which sites a run passed.
//
// LAXITY_MUTANT=id switches one mutant on. LAXITY_MUTANT_RECORD=file writes the ids passed, one byte for each, at exit.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace laxity::mutation {

class Sites {
 public:
  static constexpr int kMost = 4096;

  Sites() {
    if (const char* id = std::getenv("LAXITY_MUTANT")) active_ = std::atoi(id);
    file_ = std::getenv("LAXITY_MUTANT_RECORD");
  }
  ~Sites() {
    if (file_ == nullptr) return;
    if (std::FILE* out = std::fopen(file_, "wb")) {
      std::fwrite(passed_, 1, sizeof passed_, out);
      std::fclose(out);
    }
  }
  bool on(int id) {
    passed_[id] = 1;
    return id == active_;
  }

 private:
  int active_ = -1;
  const char* file_ = nullptr;
  unsigned char passed_[kMost] = {};
};

inline Sites sites;

}  // namespace laxity::mutation

#define LAXITY_MUTANT(id) (::laxity::mutation::sites.on(id))
