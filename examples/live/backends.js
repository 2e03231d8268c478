// BACKENDS=http://gpu-1:8000,http://gpu-2:8000: plain OpenAI-compatible servers. What they can do is learned.
export const backends = (process.env.BACKENDS ?? 'http://127.0.0.1:8000,http://127.0.0.1:8001')
  .split(',')
  .map((url) => ({ url }))

export const port = Number(process.env.PORT ?? 3000)
