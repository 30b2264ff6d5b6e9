{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Serving
-- Description : A request that a site answers
-- Stability   : internal, exempt from the version policy
--
-- What the parts of "Heddle.Serve.Static" have in common: the site, what a capability keeps of it, what is known of the
-- request by now, and what every reply gets besides.
--
-- Cost: see each function.
-- Owner: one 'Kept' per capability.
module Heddle.Serve.Serving
  ( -- * Sites
    StaticSite (..),
    Kept (..),
    newKept,
    keptBytes,
    doubtKept,

    -- * Requests
    Serving (..),
    servingOf,
    policyHere,

    -- * Replies
    finish,
    refuse,
    onceAMinute,
    current,
    cachedContent,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Http.Range (ByteRange (..), rangeLength)
import Heddle.Http.UriPath
import Heddle.Prim.Atomic (modifyRef, newRef)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Serve.ErrorPage
import Heddle.Serve.FileCache
import Heddle.Serve.FileReply
import Heddle.Serve.Negotiate
import Heddle.Serve.OpenFile
import Heddle.Serve.Policy
import Heddle.Serve.Routes

-- | What is served.
data StaticSite = StaticSite
  { -- | The root directory, and how files beneath it are opened.
    staticOpening :: !Opening,
    -- | The part of paths, decoded and without slashes at its ends, that is not the files': empty for a whole site.
    staticPrefix :: !ByteString,
    -- | Where the pages of errors are.
    staticPages :: !Opening,
    -- | Names tried, in order, for a directory.
    staticIndexes :: ![ByteString],
    -- | Serve names that begin with a dot (@.well-known@ always is).
    staticHidden :: !Bool,
    -- | The server's name, for prebuilt replies.
    staticServerName :: !ByteString,
    staticPolicy :: !Policy,
    -- | What the files do not answer.
    staticRoutes :: !Routes,
    -- | Hears why files are refused, and what is to be said of it; see 'onceAMinute'.
    staticTell :: !(ByteString -> String -> IO ())
  }

-- | What a capability keeps of the site.
data Kept = Kept
  { keptFiles :: !FileCache,
    keptMemo :: !Memo,
    keptPages :: !ErrorPages
  }

-- | Nothing yet.
newKept :: IO Kept
newKept = Kept <$> newFileCache <*> newMemo <*> newErrorPages

-- | Measure how much it is.
--
-- [Units]: bytes of replies.
-- [Threads]: any.
keptBytes :: Kept -> IO Int
keptBytes = cacheHeld . keptFiles

-- | Let everything that it is be compared with the disk before it is used again.
--
-- [Threads]: any.
doubtKept :: Kept -> IO ()
doubtKept kept = doubtEntries (keptFiles kept) >> forgetPages (keptPages kept)

-- | A request that the cache alone cannot answer.
data Serving = Serving
  { servingSite :: !StaticSite,
    servingKept :: !Kept,
    servingRequest :: !Request,
    servingMethod :: !MethodCode,
    servingVariant :: !Variant,
    -- | The entry that the cache had; its file may be the same still.
    servingOld :: !(Maybe Entry),
    -- | The fallback page is being served, so there is none for what is missing.
    servingFallback :: !Bool,
    -- | A program has named this path instead of its own.
    servingRedirected :: !(Maybe Redirected),
    -- | The query after a rewrite, and how many rewrites have led here.
    servingAsked :: !(Maybe ByteString),
    servingHops :: !Int,
    -- | The user whose password was right, worked out only for programs.
    servingUser :: Maybe ByteString
  }

-- | Nothing is known of it but this.
servingOf :: StaticSite -> Kept -> Request -> MethodCode -> Variant -> Maybe ByteString -> Serving
servingOf site kept request code variant = Serving site kept request code variant Nothing False Nothing Nothing 0
{-# INLINE servingOf #-}

-- | The site's.
policyHere :: Serving -> Policy
policyHere = staticPolicy . servingSite

-- | Add what replies without a file get besides: the headers for the path as requested, and an error's page.
finish :: Serving -> Reply -> IO Reply
finish serving reply = case reply of
  Whole status _ _ | statusCode status /= 304 -> do
    raw <- rawPath request
    let names = [either (const raw) nameOf (decodePath raw)]
        more = headersFor (policyHere serving) (statusCode status >= 400) names ++ originHeaders (policyHere serving) (servingVariant serving)
    if statusCode status >= 400
      then withHeaders more <$> errorPage (policyHere serving) (staticPages (servingSite serving)) (keptPages (servingKept serving)) request reply
      else pure (withHeaders more reply)
  _ -> pure reply
  where
    request = servingRequest serving
{-# NOINLINE finish #-}

-- | Answer with this status and sentence. An operator hears of what the configuration or the rights of files refuse, since a client that
-- is refused has no way to tell, and why is not in the access log. Since any client can ask for such a file, only so much of the target is
-- told.
refuse :: Serving -> (Status, ByteString) -> IO Reply
refuse serving (status, why) = do
  raw <- rawPath request
  name <- host request
  staticTell (servingSite serving) why (shortened (C.unpack (name <> raw)) ++ " is answered with " ++ show (statusCode status) ++ ": " ++ C.unpack why)
  finish serving (problem status why)
  where
    request = servingRequest serving
    shortened text = case splitAt 200 text of
      (whole, "") -> whole
      (part, _) -> part ++ "..."
{-# NOINLINE refuse #-}

-- | Make what tells of each reason at most once a minute, so that what clients ask for does not crowd out other messages.
--
-- [Cost]: O(reasons that were told).
-- [Threads]: any.
onceAMinute :: (String -> IO ()) -> IO (ByteString -> String -> IO ())
onceAMinute tell = do
  told <- newRef []
  pure $ \reason text -> do
    Deadline now <- monotonicNow
    due <- modifyRef told $ \known -> case lookup reason known of
      Just before | now - before <= 60000000000 -> (known, False)
      _ -> ((reason, now) : filter ((/= reason) . fst) known, True)
    when due (tell text)

-- | The answer from an entry of the cache that is known to be current.
current :: Serving -> Entry -> IO Reply
current serving entry = do
  conditional <- isConditional request
  ranged <- hasHeader request HeaderRange
  if not (conditional || ranged)
    then pure (Ready (entryReply entry))
    else conditionalReply request (servingMethod serving) (entryRepresentation entry) (cachedContent entry) >>= finish serving
  where
    request = servingRequest serving
{-# INLINE current #-}

-- | Describe how its content is sent.
cachedContent :: Entry -> Content
cachedContent entry =
  Content
    { contentWhole = Ready (entryReply entry),
      contentUnchanged = Ready (entryUnchanged entry),
      contentPart = \range ->
        SegmentBytes <$> prebuiltPart (entryReply entry) (fromIntegral (rangeFirst range)) (fromIntegral (rangeLength range))
    }
