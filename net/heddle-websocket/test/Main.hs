module Main (main) where

import CodecTest qualified
import ConversationTest qualified
import EndsTest qualified
import Fixture (onPoll)
import HandshakeTest qualified
import Heddle.Testkit.Descriptors
import InteropTest qualified
import Test.Tasty
import Test.Tasty.Runners (NumThreads (..))
import TlsTest qualified

main :: IO ()
main = do
  before <- openDescriptors
  defaultMain . localOption (NumThreads 1) $
    testGroup
      "heddle-websocket"
      [ CodecTest.tests,
        HandshakeTest.tests,
        ConversationTest.tests,
        EndsTest.tests,
        onPoll EndsTest.tests,
        InteropTest.tests,
        TlsTest.tests,
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]
