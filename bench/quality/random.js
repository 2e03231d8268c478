// Seeded draws for scenarios and bootstrap intervals: splitmix64 over 53 bits, the same on every platform.

function mix(z) {
  z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n)
  z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn)
  return z ^ (z >> 31n)
}

export function random(seed) {
  // The seed is mixed too: seeds that are neighbours would walk through the same sequence.
  let state = mix(BigInt(seed) + 0x9e3779b97f4a7c15n)
  const next = () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n)
    return Number(mix(state) >> 11n) / 2 ** 53
  }
  return {
    uniform: (low, high) => low + (high - low) * next(),
    below: (n) => Math.floor(next() * n),
    pick: (items) => items[Math.floor(next() * items.length)],
  }
}
