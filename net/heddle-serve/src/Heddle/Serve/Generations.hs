{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Serve.Generations
-- Description : What is served, and what is served instead after a reload
-- Stability   : internal, exempt from the version policy
--
-- A generation is everything that the sites of one configuration consist of. A thread of its own opens it in brackets,
-- publishes it, and waits until another one has taken its place and none of its requests is under way; then the brackets
-- close it. So a request is answered by one generation from its beginning to the end of its reply, and nothing is closed
-- under it.
--
-- Cost: two loads for a reply from the cache of files; otherwise two atomic additions for each request, and a frame that catches its
-- exceptions.
-- Owner: the 'Holder'.
-- Shared writes per request: 0; each capability counts on a cache line of its own.
module Heddle.Serve.Generations
  ( Generations,
    OpeningSites,
    newGenerations,
    replaceGeneration,
    currentSites,
    generationHandler,
    generationAtOnce,
  )
where

import Control.Monad (unless, when)
import Data.Foldable (for_)
import Heddle.Http
import Heddle.Http.Borrowed (requestCapability)
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
import Heddle.Prim.WaitCell
import Heddle.Serve.Held
import Heddle.Serve.Sites

-- | Opens sites, runs with them, closes them.
type OpeningSites = forall a. (OpenSites -> IO a) -> IO a

-- | The generation that answers new requests, and what the threads of all that are open belong to.
data Generations = Generations
  { generationsCurrent :: !(Ref Generation),
    generationsCapabilities :: !Int,
    generationsHolder :: !Holder,
    -- | Word 0: the number of the newest.
    generationsNumber :: !Words
  }

data Generation = Generation
  { generationNumber :: !Int,
    generationSites :: !OpenSites,
    generationHandlers :: !(Table SiteHandlers),
    -- | Word 0: 1 when another one has taken its place. Then, 'apart' words from one to the next, how many requests each
    -- capability answers by it.
    generationWords :: !Words,
    generationWake :: !WaitCell
  }

-- Two cache lines.
apart :: Int
apart = 16

-- | Open the first generation, for this number of capabilities, and run. With the end of the holder all are closed, whether or
-- not they answer requests.
--
-- [Blocks]: parks while it is opened.
-- [Throws]: what opening throws.
newGenerations :: Holder -> Int -> OpeningSites -> IO (OpenSites, Generations)
newGenerations holder capabilities opening = do
  (first, sites) <- openGeneration holder capabilities 0 opening >>= either throwIO pure
  current <- newRef first
  number <- newWords 1
  pure (sites, Generations current capabilities holder number)

-- | Let new requests be answered by another generation, once it has been opened; if that fails, the present one goes on. The
-- action runs right before new requests are answered by it.
--
-- [Blocks]: parks while it is opened; requests under way are not waited for.
-- [Threads]: one at a time.
replaceGeneration :: Generations -> OpeningSites -> (OpenSites -> IO ()) -> IO (Either SomeException ())
replaceGeneration generations opening before = do
  number <- (+ 1) <$> fetchAdd (generationsNumber generations) 0 1
  opened <- openGeneration (generationsHolder generations) (generationsCapabilities generations) number opening
  case opened of
    Left e -> pure (Left e)
    Right (next, sites) -> mask_ $ do
      before sites
      old <- readRef (generationsCurrent generations)
      writeRef (generationsCurrent generations) next
      -- A full barrier; its pair is in 'enter'.
      _ <- fetchAdd (generationWords old) 0 1
      unpark (generationWake old)
      pure (Right ())

-- | The sites that answer new requests.
currentSites :: Generations -> IO OpenSites
currentSites generations = generationSites <$> readRef (generationsCurrent generations)

-- In a thread of its own, which goes on until the generation is retired and has no requests.
openGeneration :: Holder -> Int -> Int -> OpeningSites -> IO (Either SomeException (Generation, OpenSites))
openGeneration holder capabilities number opening =
  holdOpen holder ("serve/generation/" ++ show number) $ \publish -> opening $ \sites -> do
    made <- traverse (siteHandlers sites) [0 .. capabilities - 1]
    handlers <- newTable capabilities (head made)
    for_ (zip [0 ..] made) (uncurry (writeEntry handlers))
    generation <- Generation number sites handlers <$> newWords ((capabilities + 1) * apart) <*> newWaitCell
    publish (generation, sites)
    untilDone generation

-- Until another generation has taken its place, and all requests that it answers have been answered.
untilDone :: Generation -> IO ()
untilDone generation = do
  _ <- reset (generationWake generation)
  retired <- atomicRead (generationWords generation) 0
  open <- if retired == 0 then pure 1 else requestsOf generation
  unless (open == 0) (park (generationWake generation) >> untilDone generation)

requestsOf :: Generation -> IO Int
requestsOf generation = sum <$> traverse (\i -> atomicRead (generationWords generation) (i * apart)) [1 .. tableSize (generationHandlers generation)]

-- | Answers by the current generation. What is in memory, and needs nothing that is ever closed, is not counted.
generationHandler :: Generations -> Handler
generationHandler generations request = do
  generation <- readRef (generationsCurrent generations)
  handlers <- readEntry (generationHandlers generation) (requestCapability request)
  siteCached handlers request >>= \case
    Just reply -> pure reply
    Nothing -> counted generations request

-- Replies that are made while they are sent are sent before it returns, since they need what belongs to the generation.
counted :: Generations -> Handler
counted generations request = mask_ $ do
  generation <- enter generations capability
  reply <- unsafeUnmask (readEntry (generationHandlers generation) capability >>= \handlers -> siteMain handlers request >>= complete request) `onException` leave generation capability
  leave generation capability
  pure reply
  where
    capability = requestCapability request

-- | Answers at once by the current generation, from memory. What is answered so needs nothing that is ever closed, so the request
-- is not counted.
generationAtOnce :: Generations -> Request -> IO (Maybe Reply)
generationAtOnce generations request = do
  generation <- readRef (generationsCurrent generations)
  handlers <- readEntry (generationHandlers generation) (requestCapability request)
  siteAtOnce handlers request

-- Count a request. If another generation has taken this one's place meanwhile, it may be closed already: count again with that.
enter :: Generations -> Int -> IO Generation
enter generations capability = do
  generation <- readRef (generationsCurrent generations)
  -- A full barrier; its pair is in 'replaceGeneration': either this finds the new generation, or its thread finds the count.
  _ <- fetchAdd (generationWords generation) ((capability + 1) * apart) 1
  now <- readRef (generationsCurrent generations)
  if generationNumber now == generationNumber generation
    then pure generation
    else leave generation capability >> enter generations capability

leave :: Generation -> Int -> IO ()
leave generation capability = do
  before <- fetchAdd (generationWords generation) ((capability + 1) * apart) (-1)
  retired <- readWord (generationWords generation) 0
  when (retired /= 0 && before == 1) (unpark (generationWake generation))

complete :: Request -> Reply -> IO Reply
complete request reply = case reply of
  Ready _ -> pure reply
  Whole {} -> pure reply
  -- It has descriptors of its own.
  Segments {} -> pure reply
  Replied _ -> pure reply
  -- Its two connections are its own. Run within the request, it would keep the request's memory for as long as it lasts.
  Tunnel {} -> pure reply
  _ -> do
    -- Before it is sent, or the reply would keep content that is lazy.
    let !status = replyStatus reply
    _ <- replyNow request reply
    pure (Replied status)
{-# INLINE complete #-}
