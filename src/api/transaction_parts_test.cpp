// Transactions within others whose caller keeps the contents of what was opened before, as Python's does.
#include <gmock/gmock.h>
#include <holdfast/transaction.hpp>

#include "api/manager_test_configurations.hpp"

namespace holdfast {
namespace {

struct part_node {
    ptr<part_node> next;
    std::uint64_t value = 0;
    std::uint32_t tail = 0;
};

class transaction_parts_test : public manager_test, public testing::WithParamInterface<test_configuration> {};

TEST_P(transaction_parts_test, drop_all_but_what_the_caller_puts_back) {
    manager heap(create_only, path(), options_of(GetParam()));
    auto& list = *heap.construct<part_node>("list")();
    auto& other = *heap.construct<part_node>("other")();
    heap.transact([&](transaction& tx) {
        part_node& head = tx.open(list);
        head.value = 1;
        head.next = tx.make<part_node>();
        part_node& made = *head.next;
        made.value = 6;
        for (int i = 0; i < 3; ++i) {
            transaction inner(tx, detail::contents_by_caller());
            inner.open(other).value = 3;
            static_cast<void>(inner.make<part_node>());
            inner.store(heap.root(1), static_cast<void*>(&list));
            made.value = 7;
            inner.destroy(&made);
            {
                transaction innermost(inner, detail::contents_by_caller());
                innermost.open(list).value = 2;
                innermost.commit();
            }
            head.value = 1;
            made.value = 6;
        }
        EXPECT_EQ(tx.open(other).value, 0U);
        {
            transaction inner(tx, detail::contents_by_caller());
            inner.open(list).tail = 9;
            inner.open(list).next = inner.make<part_node>();
            inner.open(list).next->value = 8;
            inner.destroy(&made);
            inner.commit();
        }
    });
    EXPECT_EQ(list.value, 1U);
    EXPECT_EQ(list.tail, 9U);
    ASSERT_NE(list.next, nullptr);
    EXPECT_EQ(list.next->value, 8U);
    EXPECT_EQ(other.value, 0U);
    EXPECT_EQ(heap.root(1), nullptr);
    EXPECT_EQ(heap.statistics().allocated_blocks, 3U);
    EXPECT_THAT(heap.check(false), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(durabilities, transaction_parts_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
