// Every public header includes this one first, itself or through another.
#pragma once

#if defined(__cplusplus) && __cplusplus < 202002L
#error "Holdfast needs C++20: compile with -std=c++20"
// A missing header ends the compilation; hundreds of errors about concepts would follow #error alone.
#include <Holdfast needs C++20: compile with -std=c++20>
#endif
