import { describe, quote } from '../errors.ts'
import type { Problems } from '../report/problems.ts'
import type { ModelConfig } from './config.ts'

/** Whether a JSON object is a Hugging Face `config.json` (its names are not this package's). */
export function isHuggingFace(value: unknown): value is Record<string, unknown> {
  return (
    isRecord(value) && ('num_hidden_layers' in value || 'model_type' in value || 'architectures' in value)
  )
}

/** Architectures whose attention or feed-forward layers the kernels do not describe. */
const NOT_LLAMA_LIKE: readonly [field: string, what: string][] = [
  ['kv_lora_rank', 'multi-head latent attention'],
  ['mamba_d_state', 'state-space layers'],
  ['ssm_cfg', 'state-space layers'],
  ['layer_types_linear_attention', 'linear attention'],
  ['encoder_layers', 'an encoder'],
]

/**
 * Sizes of a Llama- or Qwen-like model from its `config.json`: grouped-query attention with a dense gated MLP or a
 * mixture of experts in every layer. Everything else is refused, with the reason.
 */
export function fromHuggingFace(
  config: Record<string, unknown>,
  where: string,
  problems: Problems,
): ModelConfig | undefined {
  const before = problems.count
  const refuse = (message: string, field: string): void =>
    problems.add('ERR_LAXITY_FIELD', message, `${where}${field}`)
  const size = (names: readonly string[], fallback?: number): number => {
    for (const name of names) {
      const value = config[name]
      if (value === undefined || value === null) continue
      if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 1e7) return value
      refuse(`Expected a positive whole number for \`${name}\`, got ${describe(value)}`, name)
      return 1
    }
    if (fallback !== undefined) return fallback
    refuse(`Expected a positive whole number for \`${names[0]}\`, got undefined`, names[0]!)
    return 1
  }

  for (const [field, what] of NOT_LLAMA_LIKE) {
    if (config[field] !== undefined && config[field] !== null)
      refuse(`Not a Llama- or Qwen-like model: it has ${what} (\`${field}\`)`, field)
  }
  const activation = config.hidden_act
  if (activation !== undefined && activation !== 'silu' && activation !== 'swish') {
    refuse(`Expected a gated MLP (hidden_act "silu"), got ${describe(activation)}`, 'hidden_act')
  }
  const queryHeads = size(['num_attention_heads'])
  const hidden = size(['hidden_size'])
  const shape = {
    layers: size(['num_hidden_layers']),
    hidden,
    queryHeads,
    kvHeads: size(['num_key_value_heads'], queryHeads),
    headDim: size(['head_dim'], hidden / queryHeads),
    vocabulary: size(['vocab_size']),
    tiedEmbeddings: config.tie_word_embeddings === true,
  }
  let model: ModelConfig
  const expertNames = ['num_experts', 'num_local_experts', 'n_routed_experts']
  if (expertNames.some((name) => typeof config[name] === 'number' && config[name] > 0)) {
    checkEveryLayerMixes(config, refuse)
    model = {
      ...shape,
      experts: size(expertNames),
      expertsPerToken: size(['num_experts_per_tok', 'num_experts_per_token']),
      expertWidth: size(['moe_intermediate_size', 'intermediate_size']),
    }
  } else {
    model = { ...shape, ffn: size(['intermediate_size']) }
  }
  if (config.num_hidden_layers === undefined && isRecord(config.text_config)) {
    refuse('A multimodal config: give its `text_config` as a file of its own', 'text_config')
  }
  return problems.count === before ? model : undefined
}

function checkEveryLayerMixes(
  config: Record<string, unknown>,
  refuse: (message: string, field: string) => void,
): void {
  const {
    decoder_sparse_step: step,
    mlp_only_layers: dense,
    shared_expert_intermediate_size: shared,
  } = config
  if (step !== undefined && step !== null && step !== 1)
    refuse('Experts in some layers only are not modelled', 'decoder_sparse_step')
  if (Array.isArray(dense) && dense.length > 0)
    refuse('Experts in some layers only are not modelled', 'mlp_only_layers')
  if (typeof shared === 'number' && shared > 0)
    refuse('Shared experts are not modelled', 'shared_expert_intermediate_size')
  if (typeof config.n_shared_experts === 'number' && config.n_shared_experts > 0)
    refuse(`Shared experts are not modelled (${quote('n_shared_experts')})`, 'n_shared_experts')
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
