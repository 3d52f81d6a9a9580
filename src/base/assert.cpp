#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace holdfast::base {

void assertion_failed(const char* expression, const char* file, int line) noexcept {
    std::fprintf(stderr, "holdfast: broken assertion: %s (%s:%d)\n", expression, file, line);
    std::abort();
}

}  // namespace holdfast::base
