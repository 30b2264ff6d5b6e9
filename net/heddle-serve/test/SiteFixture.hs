{-# LANGUAGE OverloadedStrings #-}

-- | A site in a directory of its own, served in the test's process.
module SiteFixture
  ( Running (..),
    withSite,
    withRoutedSite,
    withRoutedSiteFor,
    withDirectory,
    ask,
    asking,
    with,
    noise,
  )
where

import Control.Exception (bracket)
import Control.Monad (unless)
import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.Word (Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr, minusPtr)
import Heddle.Http
import Heddle.IO (ListenOptions (..), Spread (..), defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Serve.Internal
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Directory (removePathForcibly)
import System.Posix.Temp (mkdtemp)

-- | A site that is being served.
data Running = Running
  { siteDirectory :: !FilePath,
    siteAddress :: !SockAddr,
    -- | The log lines so far.
    siteLines :: !(IO [ByteString])
  }

-- | A new directory, removed afterwards.
withDirectory :: (FilePath -> IO a) -> IO a
withDirectory = bracket (mkdtemp "/tmp/heddle-test-") removePathForcibly

-- | Fill a directory, serve it, run; then every connection must end, and no reply may have
-- failed in the server.
withSite :: (FilePath -> IO ()) -> (Running -> IO a) -> IO a
withSite = withSiteOf defaultFileOptions Nothing noRoutes

-- | The same with routes.
withRoutedSite :: Routes -> (FilePath -> IO ()) -> (Running -> IO a) -> IO a
withRoutedSite = withRoutedSiteFor Nothing

-- | As a user's whose password was right.
withRoutedSiteFor :: Maybe ByteString -> Routes -> (FilePath -> IO ()) -> (Running -> IO a) -> IO a
withRoutedSiteFor = withSiteOf defaultFileOptions

withSiteOf :: FileOptions -> Maybe ByteString -> Routes -> (FilePath -> IO ()) -> (Running -> IO a) -> IO a
withSiteOf files user routes populate body = withDirectory $ \directory -> do
  populate directory
  logged <- newIORef []
  failures <- newIORef []
  let settings = defaultSettings {settingFailed = \_ e -> atomicModifyIORef' failures (\es -> (show e : es, ()))}
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      bracket (openRoot (C.pack directory)) closeRoot $ \root -> do
        let opening = Opening (Just root) noReserve False
            make _ = do
              kept <- newKept
              clock <- newLogClock
              let hook request what status bytes = do
                    line <- allocaBytes longestLine $ \p -> do
                      end <- pokeLogLine clock request what status bytes p
                      B.packCStringLen (castPtr p, end `minusPtr` p)
                    atomicModifyIORef' logged (\ls -> (line : ls, ()))
              pure (staticHandlerFor (StaticSite opening "" opening ["index.html", "index.htm"] False "heddle" (policyOf files) routes (\_ _ -> pure ())) kept user, Just hook)
        withServer runtime settings make [listener] $ \server -> do
          r <- body (Running directory (listenerAddress listener) (reverse <$> readIORef logged))
          _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
          failed <- readIORef failures
          unless (null failed) (unexpected "no failure in the server" (show failed))
          pure r

-- | One request on a connection, and its answer.
ask :: Client -> ByteString -> ByteString -> [(ByteString, ByteString)] -> IO Answer
ask client method' path fields = do
  say client $
    C.concat ([method', " ", path, " HTTP/1.1\r\nHost: test\r\n"] ++ [C.concat [n, ": ", v, "\r\n"] | (n, v) <- fields] ++ ["\r\n"])
  hear client method' >>= maybe (unexpected ("an answer to " ++ C.unpack method' ++ " " ++ C.unpack path) "the end of the connection") pure

-- | 'ask' on a connection of its own.
asking :: Running -> ByteString -> ByteString -> [(ByteString, ByteString)] -> IO Answer
asking site method' path fields = with site $ \client -> ask client method' path fields

-- | A connection to the site.
with :: Running -> (Client -> IO a) -> IO a
with = withClient . siteAddress

-- | This many bytes, the same in every run. They repeat a block of prime length, so that no two
-- pages or buffers are alike.
noise :: Int -> ByteString
noise n = B.take n (B.concat (replicate (n `quot` B.length block + 1) block))

block :: ByteString
block = fst (B.unfoldrN 65521 step (88172645463325252 :: Word64))
  where
    step :: Word64 -> Maybe (Word8, Word64)
    step x0 =
      let x1 = x0 `xor` (x0 * 128)
          x2 = x1 `xor` (x1 `shiftR` 9)
          x3 = x2 `xor` (x2 * 256)
       in Just (fromIntegral (x3 `shiftR` 24), x3)
