// All containers that work in a heap, in holdfast:: and, as in Metall, in holdfast::container::.
//
// The hash tables are Holdfast's own, the others Boost's. Most of the standard library's keep raw pointers and do not
// compile with holdfast::allocator: the message names the container to use. libstdc++'s std::vector (except
// std::vector<bool>) and std::deque may be used.
#pragma once

#include <holdfast/containers/ordered.hpp>
#include <holdfast/containers/sequences.hpp>
#include <holdfast/containers/string.hpp>
#include <holdfast/containers/unordered.hpp>
