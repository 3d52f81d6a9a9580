// Out of line, each value that passes between functions is a store, and stores wait for the fence of the record before.
#pragma once

#define HF_HOT [[gnu::always_inline]] inline
