// Every queue order. To add one: its header here, its type in the list.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "order/atlas.h"
#include "order/edf.h"
#include "order/edf_alpha.h"
#include "order/edf_path.h"
#include "order/fcfs.h"
#include "order/level_laxity.h"
#include "order/level_ratio.h"
#include "order/llf.h"
#include "order/llf_call.h"
#include "order/plas.h"
#include "order/qlm.h"
#include "order/ratio.h"
#include "order/sjf.h"
#include "order/srpt.h"
#include "order/stretch.h"
#include "order/urgency.h"
#include "order/vtc.h"
#include "order/workflow_fcfs.h"

namespace laxity {

using Order = std::variant<Fcfs, WorkflowFcfs, Urgency, Ratio, Edf, EdfPath, Llf, LlfCall, Sjf, Srpt, Stretch,
                           Vtc, Qlm, EdfAlpha, Plas, Atlas, LevelLaxity, LevelRatio>;

/// False where no order has this name.
bool makeOrder(std::string_view name, Order* out);
std::vector<std::string_view> orderNames();

}  // namespace laxity
