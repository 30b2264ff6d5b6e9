{-# LANGUAGE OverloadedStrings #-}

-- | Many WebSockets at once.
module ProxyTunnels
  ( tests,
  )
where

import Control.Exception (bracket)
import Control.Monad (forM, forM_, forever, void)
import Data.ByteString qualified as B
import Heddle.Gateway.Proxy
import Heddle.Http (defaultSettings)
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import ProxyFixture
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testCase "500 WebSockets at once, each with its own bytes" . withScripted script $ \upstream ->
  withFront Epoll defaultSettings (patient "" [upstream]) $ \front -> do
    bracket (forM [1 .. 500 :: Int] (const (opened front))) (mapM_ close) $ \sockets -> do
      forM_ (zip [0 ..] sockets) $ \(i, s) -> sendAll s (bytesOf i)
      forM_ (zip [0 ..] sockets) $ \(i, s) -> exactly s (B.length (bytesOf i)) >>= (@?= bytesOf i)
      proxyFigures (frontProxy front) >>= (@?= 500) . sum . figureOpen
    void (eventually "no tunnel to be open" (sum . figureOpen <$> proxyFigures (frontProxy front)) (== 0))
  where
    bytesOf :: Int -> B.ByteString
    bytesOf i = B.replicate (1 + i) (fromIntegral (i `mod` 251))
    script _ peer = do
      _ <- hearHead peer
      tell peer "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
      forever (hearExactlyFrom peer 1 >>= tell peer)
    opened front = do
      s <- socket AF_INET Stream 0
      withFdSocket s setCloseOnExecIfNeeded
      connect s (frontAddress front)
      sendAll s "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
      top <- headOf s ""
      B.isPrefixOf "HTTP/1.1 101 " top @?= True
      pure s
    headOf s seen
      | "\r\n\r\n" `B.isSuffixOf` seen = pure seen
      | otherwise = patiently "a head" (recv s 1) >>= \b -> if B.null b then unexpected "a head" (show seen) else headOf s (seen <> b)
    exactly s n
      | n <= 0 = pure ""
      | otherwise = patiently "the echo" (recv s n) >>= \b -> if B.null b then unexpected "the echo" "the end" else (b <>) <$> exactly s (n - B.length b)
