// Calls that write or sync are cancellation points (pthread_cancel). Inside an operation a cancellation would leave a
// lock held, or end the process.
#pragma once

#include <pthread.h>

namespace holdfast::base {

class cancellation_off {
public:
    cancellation_off() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    cancellation_off(const cancellation_off&) = delete;
    cancellation_off& operator=(const cancellation_off&) = delete;
    ~cancellation_off() { ::pthread_setcancelstate(before_, nullptr); }

private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace holdfast::base
