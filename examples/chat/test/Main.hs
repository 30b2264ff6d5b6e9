{-# LANGUAGE OverloadedStrings #-}

-- | The chat: rooms, names, and members that do not read.
module Main
  ( main,
  )
where

import Chat
import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception (try)
import Control.Monad (forM_, forever)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Http (defaultSettings, withServer)
import Heddle.IO (Runtime, defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.WebSocket
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Timeout (timeout)
import Test.Tasty (defaultMain, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

main :: IO ()
main =
  defaultMain
    . testGroup
      "heddle-chat"
    $ [ testCase "everybody in a room hears everybody in it" . withChat 100 $ \rooms visit ->
          visit $ \ada -> visit $ \zoe -> visit $ \other -> do
            sendText ada "lobby\tAda"
            hears ada "joined\tAda\t"
            sendText other "elsewhere\tEve"
            hears other "joined\tEve\t"
            sendText zoe "lobby\tZo\235"
            forM_ [ada, zoe] (`hears` "joined\tZo\235\t")
            sendText zoe "tabs\tand\nlines <b>"
            forM_ [ada, zoe] (`hears` "said\tZo\235\ttabs and lines <b>")
            sendText other "alone"
            hears other "said\tEve\talone"
            members rooms "lobby" >>= (@?= 2),
        testCase "who leaves is missed" . withChat 100 $ \rooms visit -> do
          visit $ \ada -> do
            sendText ada "lobby\tAda"
            hears ada "joined\tAda\t"
            visit $ \zoe -> sendText zoe "lobby\tZoe" >> hears zoe "joined\tZoe\t" >> hears ada "joined\tZoe\t"
            hears ada "left\tZoe\t"
          waitFor "an empty room" (members rooms "lobby") 0,
        testCase "who says no name is sent away" . withChat 100 $ \_ visit -> visit $ \ada -> do
          sendText ada "no tab"
          endsWith ada PolicyViolation "say a room and a name first",
        testCase "who does not read is dropped, and the others go on" . withChat 3 $ \rooms visit ->
          visit $ \slow -> visit $ \ada -> do
            sendText slow "lobby\tSlow"
            hears slow "joined\tSlow\t"
            sendText ada "lobby\tAda"
            hears ada "joined\tAda\t"
            -- Far more than the buffers of the kernel take.
            done <- newEmptyMVar
            let long = mconcat (replicate 40 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789") :: Utf8
                alone = (== 1) <$> members rooms "lobby"
                go = alone >>= \a -> if a then putMVar done () else sendText ada long >> heard >> go
                heard = hearsAfterLeaving ("said\tAda\t" <> long)
                -- When the other one's leaving is told is left to chance.
                hearsAfterLeaving expected =
                  soon "a line" (receive ada) >>= \case
                    TextMessage "left\tSlow\t" -> hearsAfterLeaving expected
                    m -> if m == TextMessage expected then pure () else assertFailure (take 100 (show m))
            go
            takeMVar done
            sendText ada "still here"
            hearsAfterLeaving "said\tAda\tstill here"
      ]

hears :: Connection -> Utf8 -> IO ()
hears conn expected = soon ("to hear " ++ show expected) (receive conn) >>= (@?= TextMessage expected)

endsWith :: Connection -> CloseCode -> Utf8 -> IO ()
endsWith conn code why = soon "the end" (try (forever (receive conn))) >>= either (@?= PeerClosed code why) pure

soon :: String -> IO a -> IO a
soon what act = timeout 20000000 act >>= maybe (assertFailure ("waited in vain for " ++ what)) pure

waitFor :: Eq a => String -> IO a -> a -> IO ()
waitFor what look expected = soon what go
  where
    go = look >>= \seen -> if seen == expected then pure () else yield >> go

-- A server with queues of this length; the function connects.
withChat :: Int -> (Rooms -> ((Connection -> IO ()) -> IO ()) -> IO ()) -> IO ()
withChat most body = do
  rooms <- newRooms most
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServer runtime defaultSettings (\_ -> pure (chat rooms, Nothing)) [listener] $ \_ ->
        body rooms (visitor runtime ("ws://" ++ show (listenerAddress listener) ++ "/chat"))

visitor :: Runtime -> String -> (Connection -> IO ()) -> IO ()
visitor runtime url = withWebSocket defaultWebSocketOptions {optionDeflate = Nothing} runtime url []
