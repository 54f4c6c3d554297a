package io.loamdb.remote;

import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Objects;
import javax.net.ssl.SSLContext;

/** How a {@link Remote} reaches its nodes. */
public final class RemoteOptions {
  private static final Duration LONGEST = Duration.ofDays(3650); // clocks have room for it

  String token = "";
  String cluster = "";
  SSLContext tls;
  Duration timeout = Duration.ofSeconds(10);
  Duration tryTimeout = Duration.ofSeconds(3);

  /** What the nodes want to know; default: nothing. */
  public RemoteOptions token(String token) {
    this.token = Objects.requireNonNull(token);
    return this;
  }

  /** Name of the cluster; nodes of others refuse the client. Default: any. */
  public RemoteOptions cluster(String cluster) {
    this.cluster = Objects.requireNonNull(cluster);
    return this;
  }

  /**
   * Makes connections TLS ones, which check the node's name. Default: none; with {@code loams://}
   * one that trusts the authorities of the JVM.
   */
  public RemoteOptions tls(SSLContext tls) {
    this.tls = tls;
    return this;
  }

  /** How long a call takes at most, with all tries; default 10 s. */
  public RemoteOptions timeout(Duration timeout) {
    this.timeout = positive(timeout);
    return this;
  }

  /** How long a call that may be tried again waits for one node; default 3 s. */
  public RemoteOptions tryTimeout(Duration tryTimeout) {
    this.tryTimeout = positive(tryTimeout);
    return this;
  }

  /** These options with TLS. */
  RemoteOptions secure() {
    if (tls != null) {
      return this;
    }
    try {
      return new RemoteOptions().token(token).cluster(cluster).timeout(timeout)
          .tryTimeout(tryTimeout).tls(SSLContext.getDefault());
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this JVM has no TLS", e);
    }
  }

  private static Duration positive(Duration d) {
    if (d.compareTo(Duration.ofMillis(1)) < 0) {
      throw new IllegalArgumentException("a time-out of " + d);
    }
    return d.compareTo(LONGEST) < 0 ? d : LONGEST;
  }
}
