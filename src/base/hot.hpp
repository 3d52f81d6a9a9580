// For functions of the path that every durable call takes. Compilers leave them out of line for their size, and then
// each value that goes from one to the next is a store; stores wait for the fence of the record before, all of them.
#pragma once

#define HF_HOT [[gnu::always_inline]] inline
