// How prefill-decode clusters work (CONTRACT 8): what the scheduler and the engines must agree on.
#pragma once

#include <cstdint>

namespace laxity {

/// When a call asks for room on d. kEarly: at its lease (SGLang). kLate: after its first token.
enum class Reserve : std::uint8_t { kEarly = 0, kLate = 1 };

/// Where KV waits while d has no room. kNone: on p, the transfer starts when room was given. kUnlimited:
/// beside d, the transfer starts at the first token and d's room is asked for when it is done (the papers).
enum class Staging : std::uint8_t { kNone = 0, kUnlimited = 1 };

/// Who gives the room on d. kScheduler: admitDecode, in the policy's order. kEngine: first come, first served
/// in the engine; the scheduler only predicts it.
enum class DecodeAdmission : std::uint8_t { kScheduler = 0, kEngine = 1 };

/// Whether transfers that share an end slow each other down.
enum class Links : std::uint8_t { kContended = 0, kFree = 1 };

/// When the entries of a plan become leases. kSync: in the decide that made it. kAsync: with the event
/// planArrived (CONTRACT 12); meanwhile the lookahead leases keep the prefill instances busy. kAsyncPaper:
/// meanwhile an idle p takes the first call by workflow-FCFS, with the d of the earliest finish (HexAGenT's
/// own fallback).
enum class Planning : std::uint8_t { kSync = 0, kAsync = 1, kAsyncPaper = 2 };

struct PairOptions {
  Reserve reserve = Reserve::kEarly;
  Staging staging = Staging::kNone;
  DecodeAdmission admission = DecodeAdmission::kScheduler;
  Links links = Links::kContended;
  bool backfill = false;    ///< calls behind a head that does not fit on d may go first
  bool lateDecode = false;  ///< d is chosen again at the first token
  Planning planning = Planning::kSync;
  double overlap = 0;  ///< share of the KV that has moved when the prefill ends, 0 .. 1
};

}  // namespace laxity
