{-# LANGUAGE LambdaCase #-}

-- | What a client sends to port 7000 comes back.
module Main
  ( main,
  )
where

import Control.Monad (when)
import Heddle.IO
import Network.Socket (SockAddr (..), tupleToHostAddress)

main :: IO ()
main =
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions (SockAddrInet 7000 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      serveEach listener echo

-- | One connection, in a thread of its own, until it ends or is silent for a minute.
echo :: Conn -> IO ()
echo conn = do
  deadline <- deadlineIn (seconds 60)
  recvUntil conn 4096 deadline >>= \case
    Got bytes -> do
      result <- sendAllUntil conn bytes deadline
      when (result == Sent) (echo conn)
    _ -> pure ()
