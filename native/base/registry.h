// Finds the alternative of a variant by its kName: the whole of a policy registry.
#pragma once

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace laxity {

template <class Variant, std::size_t... I>
bool makeByName(std::string_view name, Variant* out, std::index_sequence<I...>) {
  return ((std::variant_alternative_t<I, Variant>::kName == name
               ? (out->template emplace<std::variant_alternative_t<I, Variant>>(), true)
               : false) ||
          ...);
}

template <class Variant>
bool makeByName(std::string_view name, Variant* out) {
  return makeByName(name, out, std::make_index_sequence<std::variant_size_v<Variant>>());
}

template <class Variant, std::size_t... I>
std::vector<std::string_view> namesOf(std::index_sequence<I...>) {
  return {std::variant_alternative_t<I, Variant>::kName...};
}

template <class Variant>
std::vector<std::string_view> namesOf() {
  return namesOf<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace laxity
