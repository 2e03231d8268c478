// Every pair placement. To add one: its header here, its type in the list.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "placement/pairs/distserve.h"
#include "placement/pairs/earliest_finish.h"
#include "placement/pairs/global_queue.h"
#include "placement/pairs/kv_price.h"
#include "placement/pairs/least_loaded.h"
#include "placement/pairs/mooncake.h"
#include "placement/pairs/round_robin.h"
#include "placement/pairs/splitwise.h"

namespace laxity {

using PairPlacement = std::variant<EarliestFinishPair, LeastLoadedPair, RoundRobinPair, GlobalQueuePair,
                                   SplitwisePair, DistServePair, MooncakePair, KvPricePair>;

/// False where no pair placement has this name.
bool makePairPlacement(std::string_view name, PairPlacement* out);
std::vector<std::string_view> pairPlacementNames();

}  // namespace laxity
