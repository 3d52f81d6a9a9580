#include "heap/operations/hardened_operations.hpp"

#include <utility>

namespace holdfast::heap {

namespace {

class hardened_operations final : public block_operations {
public:
    explicit hardened_operations(std::unique_ptr<block_operations> inner) noexcept : inner_(std::move(inner)) {}

    void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept override {
        return inner_->allocate(bytes, alignment, type);
    }
    bool deallocate(void* block) noexcept override { return inner_->deallocate_exactly(block); }
    bool deallocate_exactly(void* block) noexcept override { return inner_->deallocate_exactly(block); }
    void keep(const slab::held_block& held) noexcept override { inner_->keep(held); }
    void flush(const void* begin, std::uint64_t bytes) noexcept override { inner_->flush(begin, bytes); }
    void drain() noexcept override { inner_->drain(); }
    void write_back() noexcept override { inner_->write_back(); }

private:
    std::unique_ptr<block_operations> inner_;
};

}  // namespace

std::unique_ptr<block_operations> make_hardened_operations(std::unique_ptr<block_operations> inner) {
    return std::make_unique<hardened_operations>(std::move(inner));
}

}  // namespace holdfast::heap
