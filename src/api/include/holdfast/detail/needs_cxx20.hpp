// Every public header includes this one first, itself or through another.
#pragma once

#if defined(__cplusplus) && __cplusplus < 202002L
#error "Holdfast needs C++20: compile with -std=c++20"
// A header that is missing ends the compilation, which an error does not: hundreds of lines about concepts would
// follow.
#include <Holdfast needs C++20: compile with -std=c++20>
#endif
