# The core without Node: the doctest program, the fuzz targets and the programs of bench, which share its objects. Used by
# native-test.sh, fuzz.sh and bench, which set BUILD; CXX, CXXFLAGS (compiling and linking), LDFLAGS and DRIVER (empty for libFuzzer) may be set.
CXX ?= g++
CXXFLAGS ?= -O2 -g1
DRIVER ?= test/fuzz/driver.cc
FLAGS = -std=c++20 -fno-exceptions -fno-rtti -ffp-contract=off -Wall -Wextra -Werror -Inative -Itest/native -MMD -MP
# doctest needs exceptions, to unwind a failed REQUIRE. The core has no type information that UBSan's vptr check could ask for;
# after CXXFLAGS, which may ask for that check.
TEST_FLAGS = -fexceptions -frtti -fno-sanitize=vptr
# Of the core alone, for what is asked of it and not of its tests; LDFLAGS must match.
CORE_FLAGS ?=
CORE := $(patsubst %.cc,$(BUILD)/%.o,$(shell node scripts/native-sources.mjs))
# SUITES: files of test/native by their names without _test.cc; their helpers go with them.
HELPERS := $(filter-out %_test.cc,$(wildcard test/native/*.cc))
TESTS := $(patsubst %.cc,$(BUILD)/%.o,$(HELPERS) $(wildcard $(patsubst %,test/native/%_test.cc,$(or $(SUITES),*))))
ORACLES := $(BUILD)/test/native/naive_planner.o $(BUILD)/test/native/stepping.o $(BUILD)/test/native/queueing.o

# Laws are checked in these files alone: programs that measure have them without, and share all the others.
CHECKED := $(shell grep -rl --include='*.cc' LAXITY_LAWS native)
LAWFUL := $(CHECKED:%.cc=$(BUILD)/%.o)
LAWLESS := $(CHECKED:%.cc=$(BUILD)/lawless/%.o)
$(LAWFUL): FLAGS += -DLAXITY_LAWS=1
# What stands above the simulator is in no program of bench.
MEASURED := $(LAWLESS) $(filter-out $(LAWFUL) $(BUILD)/native/bounds/% $(BUILD)/native/tuner/%,$(CORE))

.PHONY: $(BUILD)/native-test always
# With which flags the objects here were made; changed ones make them again.
$(BUILD)/flags: always
	@mkdir -p $(BUILD)
	@echo '$(lastword $(CXX)) $(CXXFLAGS) $(CORE_FLAGS)' | cmp -s - $@ || echo '$(lastword $(CXX)) $(CXXFLAGS) $(CORE_FLAGS)' > $@
$(BUILD)/native-test: $(CORE) $(TESTS)
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^ -lpthread
$(BUILD)/fuzz-%: $(BUILD)/test/fuzz/%.o $(CORE) $(ORACLES) $(DRIVER:%.cc=$(BUILD)/%.o)
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^
$(BUILD)/native/%.o $(BUILD)/lawless/native/%.o: native/%.cc $(BUILD)/flags
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) $(CXXFLAGS) $(CORE_FLAGS) -c -o $@ $<
# Without their test cases most helpers of a test file are not used.
$(BUILD)/test/fuzz/%.o: test/fuzz/%.cc $(BUILD)/flags
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) -Wno-unused-function -Wno-unused-variable -Wno-unused-const-variable $(CXXFLAGS) $(TEST_FLAGS) -c -o $@ $<
$(BUILD)/test/%.o: test/%.cc $(BUILD)/flags
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) $(CXXFLAGS) $(TEST_FLAGS) -c -o $@ $<
$(BUILD)/hot-paths: $(BUILD)/bench/gate/hot_paths.o $(MEASURED)
	$(CXX) $(CXXFLAGS) -o $@ $^
$(BUILD)/oracles: $(BUILD)/bench/oracles/oracles.o $(ORACLES) $(MEASURED)
	$(CXX) $(CXXFLAGS) -o $@ $^
$(BUILD)/bench/%.o: bench/%.cc $(BUILD)/flags
	@mkdir -p $(dir $@)
	$(CXX) $(FLAGS) $(CXXFLAGS) -c -o $@ $<
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
