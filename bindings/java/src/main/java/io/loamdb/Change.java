package io.loamdb;

import java.util.List;

/**
 * A batch that was committed.
 *
 * @param sequence the sequence number of its first operation
 * @param operations what was done, in its order
 */
public record Change(long sequence, List<Operation> operations) {}
