/** Scheduling for agentic LLM serving: schedule live calls, simulate a cluster, tune its dispatch, read and write traces. */

export { createHandler, type HandlerOptions } from './adapters/handler.ts'
export type { PairProtocol } from './adapters/pairs.ts'
export type {
  ClusterConfig,
  ConstantLatency,
  InstanceConfig,
  LatencyConfig,
  PolynomialLatency,
  ProfileLatency,
  TableLatency,
} from './cluster/config.ts'
export { clusterPresets } from './cluster/presets.ts'
export { type CompareResult, compare } from './compare/compare.ts'
export type { Ratio } from './compare/intervals.ts'
export type { CompareOptions } from './compare/options.ts'
export type { CompareRow, SeedRow } from './compare/rows.ts'
export { type ErrorCode, LaxityError } from './errors.ts'
export { calibrate, createEstimator } from './model/api.ts'
export type { CalibrateOptions, CalibrationResult } from './model/calibrate.ts'
export type { CalibrationFile, ErrorSummary } from './model/calibration-file.ts'
export type { GpuConfig, HardwareConfig, ModelConfig, Precision } from './model/config.ts'
export type {
  Estimator,
  EstimatorOptions,
  LinkOptions,
  Prompt,
  TransferOptions,
} from './model/estimate.ts'
export type {
  Arrivals,
  Binding,
  Feedback,
  Knowledge,
  PairOptions,
  Planning,
  RateStep,
  ScriptStep,
  SloBase,
} from './native.ts'
export { type Clock, ManualClock, systemClock } from './scheduler/clock.ts'
export { type Identity, type IdentityOptions, identify } from './scheduler/identity.ts'
export type { EnginePriority, LiveCluster, LiveInstance } from './scheduler/instances.ts'
export type { Lease, LeaseReason } from './scheduler/lease.ts'
export type { Metric } from './scheduler/metrics.ts'
export type { PolicyParts, SchedulerOptions, TenantShares } from './scheduler/options.ts'
export { classify, type Outcome, type OutcomeClass, retryAfterMs } from './scheduler/outcome.ts'
export type {
  PlacementCall,
  PlacementCandidate,
  PlacementFunction,
  PlacementView,
} from './scheduler/placement.ts'
export type { LivePairs } from './scheduler/read-pairs.ts'
export type { CallEstimate, Candidate, Receipt } from './scheduler/receipt.ts'
export { RejectionError } from './scheduler/rejection.ts'
export type { Remaining } from './scheduler/remaining.ts'
export { Scheduler, type SchedulerEvents } from './scheduler/scheduler.ts'
export { type ShadowResult, type ShadowRow, shadowLog } from './scheduler/shadow.ts'
export { sharedScheduler } from './scheduler/singleton.ts'
export type { InstanceSnapshot, Snapshot } from './scheduler/snapshot.ts'
export { parseLoads, parseTelemetry, type TelemetrySample } from './scheduler/telemetry.ts'
export type { CallOptions, Workflow, WorkflowChange, WorkflowOptions } from './scheduler/workflow.ts'
export type { Progress, SimulateOptions } from './simulator/options.ts'
export type { Policy } from './simulator/policies.ts'
export type { PredictionErrorOptions } from './simulator/prediction-error.ts'
export type { ArrivalShape } from './simulator/read-arrivals.ts'
export type { TenantOptions, TenantSplit } from './simulator/read-tenants.ts'
export type {
  CacheCounts,
  CallRow,
  Metrics,
  PairUse,
  PlanUse,
  SimulationResult,
  WorkflowRow,
} from './simulator/result.ts'
export { simulate } from './simulator/simulate.ts'
export type { StageMix } from './simulator/stage-mix.ts'
export { type Fairness, jain, type TenantMetrics } from './simulator/tenants.ts'
export { chessTrace } from './traces/chess.ts'
export { type ContextPreset, withContext } from './traces/context.ts'
export { macSqlTrace } from './traces/mac-sql.ts'
export { type ReadTraceOptions, readTrace, type TraceFormat } from './traces/read.ts'
export type { TemplateEntry, TraceTable } from './traces/table.ts'
export { generateWorkload, type WorkloadName, type WorkloadOptions } from './traces/workload.ts'
export { writeTrace } from './traces/write.ts'
export type { TuningEvent, TuningReason } from './tuning/auto-events.ts'
export type { AutoTuneOptions, Detector } from './tuning/auto-options.ts'
export type { Tuning } from './tuning/auto-simulate.ts'
export type { Eliminated } from './tuning/halving.ts'
export type { Objective } from './tuning/objective.ts'
export { type Search, type SweepOptions, type SweepPoint, type SweepResult, sweep } from './tuning/sweep.ts'
