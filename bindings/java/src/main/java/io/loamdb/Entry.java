package io.loamdb;

/**
 * A key and its value, which the caller may keep and change.
 *
 * @param key the key
 * @param value the value; empty where only keys were read
 */
public record Entry(byte[] key, byte[] value) {}
