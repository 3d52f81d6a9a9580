// All containers that work in a heap, in holdfast:: and, as Metall spells it, in holdfast::container::.
//
// The hash tables are ours, the rest Boost's: those of the standard library keep raw pointers, and are refused at
// compile time with a sentence that names the one to use (persistable.hpp). libstdc++'s std::vector and std::deque do
// store their allocator's pointers and may be used with holdfast::allocator; std::vector<bool> may not.
#pragma once

#include <holdfast/containers/ordered.hpp>
#include <holdfast/containers/sequences.hpp>
#include <holdfast/containers/string.hpp>
#include <holdfast/containers/unordered.hpp>
